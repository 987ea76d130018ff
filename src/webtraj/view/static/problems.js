// The errors of an episode.

import { h, said, saidBlock } from "./dom.js";
import { asText, isEmpty } from "./format.js";
import { modelTab } from "./model.js";

// Returns a step's errors: [{kind, text}].
export function stepProblems(step) {
  const found = [];
  if (step.action?.error) found.push({ kind: "Action failed", text: asText(step.action.error) });
  if (step.decision?.parse_error) found.push({ kind: "Reply not parsed", text: asText(step.decision.parse_error) });
  for (const call of step.decision?.calls ?? []) {
    if (call.error) found.push({ kind: "Model call failed", text: asText(call.error) });
  }
  return found;
}

// Returns the number of errors.
export function countProblems(episode) {
  const end = episode.end ?? {};
  const steps = episode.steps.reduce((total, step) => total + stepProblems(step).length, 0);
  const lists = [end.violations, end.recording_errors, episode.problems];
  return steps + (end.error ? 1 : 0) + lists.reduce((total, list) => total + (list?.length ?? 0), 0);
}

// Returns the tab of errors: how the episode ended, then step by step.
export function problemsTab(episode, hrefOf) {
  const end = episode.end ?? {};
  const parts = [];
  if (end.error) {
    parts.push(
      h("h3", {}, "The episode ended with an exception"),
      h("p", { class: "error-line" }, h("b", {}, said(end.error.type)), " ", said(end.error.message)),
      end.error.traceback && h("div", { class: "trace", tabindex: 0, role: "group", aria: { label: "Traceback" } }, saidBlock(end.error.traceback, "code")),
    );
  }
  if (!isEmpty(end.in_flight_action)) {
    parts.push(
      h("h3", {}, "An action was in flight"),
      h("p", {}, "Its result was never observed; it may or may not have taken effect."),
      saidBlock(asText(end.in_flight_action.text || end.in_flight_action), "code"),
    );
  }
  if (end.in_flight_decision) {
    const shown = modelTab({ decision: end.in_flight_decision });
    parts.push(h("details", { class: "rest" }, h("summary", {}, "The last decision, before any step followed"), shown));
  }
  const lists = [
    ["Contract violations", end.violations],
    ["Recording errors", end.recording_errors],
    ["Unreadable parts of the record", episode.problems],
  ];
  for (const [title, texts] of lists) {
    if (texts?.length) parts.push(h("h3", {}, title), h("ul", { class: "plain" }, texts.map((text) => h("li", {}, saidBlock(asText(text))))));
  }
  const steps = episode.steps.flatMap((step, position) => stepProblems(step).map((problem) => ({ ...problem, step, position })));
  if (steps.length > 0) {
    const items = steps.map(({ kind, text, step, position }) =>
      h("li", {}, h("a", { href: hrefOf(position) }, `Step ${step.index}`), ` ${kind}: `, saidBlock(text)),
    );
    parts.push(h("h3", {}, "Steps"), h("ul", { class: "plain" }, items));
  }
  return h("div", { class: "problems" }, parts);
}
