// The tab with an episode's details.

import { h, said, saidBlock } from "./dom.js";
import { asText, duration, isEmpty, number, when } from "./format.js";
import { jsonTree } from "./json_tree.js";

// Returns the tab; `linkTo` returns the link to another episode of the dataset.
export function aboutTab(episode, linkTo) {
  const { info = {}, end } = episode;
  const facts = [
    ["Id", said(episode.id)],
    ["Task", said(info.task)],
    ["Goal", saidBlock(info.goal ?? "")],
    ["Site", said(info.site)],
    ["Seed", info.seed === null || info.seed === undefined ? "" : said(asText(info.seed))],
    ["Environment", said(info.environment)],
    ["Policy", said(info.policy)],
    ["Group", info.group && [said(info.group), `, attempt ${number(info.attempt)}`]],
    ["Started", when(episode.start_time)],
    ["Duration", duration(episode.seconds)],
    ["End", end && [said(end.reason), end.phase && [" in ", said(end.phase)], end.detail && [": ", said(end.detail)]]],
    ...Object.entries(info.links ?? {}).map(([name, id]) => [name === "retry_of" ? "Retry of" : "Parent", linked(id, linkTo)]),
    ["Forked at", episode.forks?.of && said(`step ${episode.forks.of.step} of its parent`)],
    ["Siblings", episode.forks?.siblings?.length && h("ul", {}, episode.forks.siblings.map((id) => h("li", {}, linked(id, linkTo))))],
    ...(episode.forks?.values ?? []).map((value) => [`Forks at step ${value.step}`, h("ul", {}, value.episodes.map((id) => h("li", {}, linked(id, linkTo))))]),
  ];
  const filled = facts.filter(([, value]) => value && value.textContent !== "");
  const trees = [
    ["Processing", episode.derivation],
    ["Versions", info.versions],
    ["Metadata", info.metadata],
  ].filter(([, value]) => !isEmpty(value));
  return h(
    "div",
    { class: "about" },
    h("dl", { class: "facts-list" }, filled.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    trees.map(([title, value]) => [h("h3", {}, title), jsonTree(value)]),
  );
}

function linked(id, linkTo) {
  const href = linkTo(id);
  return href ? h("a", { href }, said(id)) : said(id);
}
