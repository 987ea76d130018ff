// The filters beside the list, with the number of episodes for each value.

import { fill, h } from "./dom.js";
import { nameOf, number, OUTCOMES, short } from "./format.js";

const SHOWN = 8;

const FACETS = [
  { name: "outcome", title: "Outcome" },
  { name: "task", title: "Task" },
  { name: "site", title: "Site" },
  { name: "policy", title: "Policy" },
  { name: "policy_version", title: "Weights" },
  { name: "iteration", title: "Iteration" },
  { name: "end_reason", title: "End reason" },
  { name: "run", title: "Run" },
];

const LABELS = [["", "any label"], ["success", "success"], ["failure", "failure"], ["note", "note"], ["none", "no label"]];

// Returns {element, show(facets, query)}; `change` is called with the changed parameters.
export function facetPanel(change) {
  const unfolded = new Set();
  const groups = h("div", { class: "groups" });
  const label = h("select", { on: { change: () => change({ label: label.value }) } });
  for (const [value, words] of LABELS) label.append(h("option", { value }, words));
  const [least, most] = ["min_reward", "max_reward"].map((name) =>
    h("input", {
      type: "text", inputmode: "decimal", placeholder: name === "min_reward" ? "from" : "to", autocomplete: "off",
      aria: { label: name === "min_reward" ? "Smallest reward" : "Largest reward" },
      on: { change: (event) => changeNumber(event.target, name) },
    }),
  );
  const changeNumber = (input, name) => {
    const text = input.value.trim();
    const good = text === "" || Number.isFinite(Number(text));
    input.setAttribute("aria-invalid", String(!good));
    if (good) change({ [name]: text });
  };
  const clear = h("button", { type: "button", class: "quiet", hidden: true, on: { click: () => change(cleared()) } }, "Clear all");
  const cleared = () => Object.fromEntries(
    [...FACETS.map(({ name }) => name), "label", "min_reward", "max_reward", "q"].map((name) => [name, ""]),
  );
  const element = h(
    "aside",
    { class: "facets", aria: { label: "Filters" } },
    h("div", { class: "facets-head" }, h("h2", {}, "Filters"), clear),
    h("section", {}, h("h3", {}, "Label"), h("label", {}, h("span", { class: "unseen" }, "Label"), label)),
    h("section", {}, h("h3", {}, "Reward"), h("div", { class: "range" }, least, most)),
    groups,
  );

  const show = (facets, query) => {
    label.value = query.label ?? "";
    for (const [input, name] of [[least, "min_reward"], [most, "max_reward"]]) {
      if (document.activeElement !== input) input.value = query[name] ?? "";
    }
    clear.hidden = !Object.keys(cleared()).some((name) => query[name]);
    const focused = document.activeElement?.dataset?.facet;
    fill(groups, FACETS.map(({ name, title }) => group(name, title, facets?.[name] ?? [], query)));
    if (focused) [...groups.querySelectorAll("[data-facet]")].find((one) => one.dataset.facet === focused)?.focus();
  };

  const group = (name, title, values, query) => {
    const chosen = [query[name] ?? []].flat();
    const known = values.filter(([value]) => value !== "" && value !== null).map(([value, n]) => [String(value), n]);
    for (const value of chosen) if (!known.some(([one]) => one === value)) known.unshift([value, 0]);
    if (known.length === 0) return null;
    const shown = unfolded.has(name) ? known : known.filter(([value], i) => i < SHOWN || chosen.includes(value));
    const items = shown.map(([value, n]) => {
      const pressed = chosen.includes(value);
      const next = pressed ? chosen.filter((one) => one !== value) : value;
      const words = name === "outcome" ? (OUTCOMES[value]?.words ?? value) : value;
      const button = h(
        "button",
        {
          type: "button", class: "facet", data: { facet: `${name}=${value}` },
          aria: { pressed, label: `${short(words)} ${number(n)}` },
          title: value.length > 24 ? short(value, 300) : null, on: { click: () => change({ [name]: next }) },
        },
        nameOf(short(words, 200)),
        h("span", { class: "count" }, number(n)),
      );
      return h("li", {}, button);
    });
    const toggle = () => {
      if (!unfolded.delete(name)) unfolded.add(name);
      show(current.facets, current.query);
    };
    const words = unfolded.has(name) ? "Show fewer" : `Show all ${number(known.length)}`;
    const more = known.length > SHOWN && h("button", { type: "button", class: "quiet", on: { click: toggle } }, words);
    return h("section", {}, h("h3", {}, title), h("ul", {}, items), more);
  };

  const current = { facets: {}, query: {} };
  return {
    element,
    show(facets, query) {
      Object.assign(current, { facets, query });
      show(facets, query);
    },
  };
}
