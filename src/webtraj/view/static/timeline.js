// The list of an episode's steps, with actions, rewards and durations.

import { fill, h, icon, said } from "./dom.js";
import { duration, number, short } from "./format.js";
import { plotOf } from "./plot.js";
import { stepProblems } from "./problems.js";

export const PHASES = ["model", "act", "settle", "observe", "pictures", "other"];

// Returns the seconds of each phase of a step; `other` is the rest of the total.
export function phasesOf(step) {
  const timings = step.timings ?? {};
  const seconds = Object.fromEntries(PHASES.map((phase) => [phase, Math.max(0, Number(timings[phase]) || 0)]));
  const known = seconds.act + seconds.settle + seconds.observe + seconds.pictures;
  seconds.other = Math.max(0, (Number(timings.total) || 0) - known);
  return seconds;
}

// Returns {element, show(index)}; `open` is called with the step that is clicked.
export function timeline(episode, hrefOf, open) {
  const totals = episode.steps.map((step) => sum(Object.values(phasesOf(step))));
  const longest = Math.max(...totals, 1e-9);
  const items = episode.steps.map((step, position) => {
    const clicked = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open(position);
    };
    const problems = stepProblems(step);
    const thought = step.decision?.thought;
    const link = h(
      "a",
      { href: hrefOf(position), class: "step", on: { click: clicked } },
      h("span", { class: "step-number" }, step.index),
      h("span", { class: "step-what" }, h("b", {}, said(verbOf(step))), " ", said(targetOf(step), "target")),
      rewardOf(step),
      problems.length > 0 && h("span", { class: "mark-error" }, icon("M8 1.5 15 14H1z M8 6v4 M8 12v.5"), h("span", { class: "unseen" }, "error")),
      thought && h("span", { class: "step-thought" }, said(short(thought, 140))),
      timeBar(step, totals[position], longest),
    );
    return h("li", {}, link);
  });
  const used = PHASES.filter((phase) => episode.steps.some((step) => phasesOf(step)[phase] > 0));
  const element = h(
    "nav",
    { class: "timeline", aria: { label: "Steps" } },
    h("ol", {}, items),
    used.length > 0 && h("p", { class: "legend" }, used.map((phase) => h("span", { data: { phase } }, phase))),
    valuesOf(episode, hrefOf),
  );
  let shown = null;
  return {
    element,
    show(position) {
      shown?.removeAttribute("aria-current");
      shown = items[position]?.firstElementChild ?? null;
      shown?.setAttribute("aria-current", "step");
      shown?.scrollIntoView({ block: "nearest" });
    },
  };
}

// Returns a plot of the success rate of the forks at each step; null without forks.
function valuesOf({ forks, steps }, hrefOf) {
  const known = (forks?.values ?? []).filter(({ success }) => success.value !== null);
  if (known.length === 0) return null;
  const points = known.map(({ step, success }) => ({
    at: step, value: success.value, low: success.low, high: success.high,
    words: `From step ${step}: ${success.numerator} of ${success.denominator} succeeded`, href: hrefOf(step), key: String(step),
  }));
  const lost = forks.lost_at === null ? "" : `Step ${forks.lost_at} lost the most.`;
  const note = h("p", { class: "dim", aria: { live: "polite" } }, lost);
  const plot = plotOf([{ series: 0, points }], {
    range: [0, Math.max(1, steps.length - 1)], label: "Success of the forks, by step", size: [300, 120],
    told: ({ words }) => fill(note, `${words}. ${lost}`),
  });
  return h("section", { class: "values", aria: { label: "Values of the steps" } }, h("h3", {}, "Value"), plot, note);
}

// Returns the verb of a step's action.
export function verbOf(step) {
  if (!step.action) return step.index === 0 ? "start" : "–";
  return short(step.action.verb || step.action.text, 40);
}

// Returns the target of a step's action.
export function targetOf(step) {
  if (!step.action) return short(step.title || step.url || "", 60);
  if (step.action.name) return short(step.action.name, 60);
  if (!step.action.verb) return "";
  return short(String(step.action.text ?? "").replace(step.action.verb, "").replace(/^\((.*)\)$/s, "$1"), 60);
}

function rewardOf(step) {
  if (typeof step.reward !== "number" || step.reward === 0) return null;
  const sign = step.reward > 0 ? "good" : "bad";
  return h("span", { class: `reward ${sign}` }, `${step.reward > 0 ? "+" : ""}${number(step.reward)}`);
}

function timeBar(step, total, longest) {
  if (total === 0) return null;
  const phases = Object.entries(phasesOf(step)).filter(([, seconds]) => seconds > 0);
  const words = phases.map(([phase, seconds]) => `${phase} ${duration(seconds)}`).join(", ");
  return h(
    "span",
    { class: "time", title: `${duration(total)}: ${words}` },
    h("span", { class: "bars" }, phases.map(([phase, seconds]) => h("span", { data: { phase }, css: { "--share": seconds / longest } }))),
    h("span", { class: "seconds" }, duration(total)),
  );
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
