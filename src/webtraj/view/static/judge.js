// The judges' verdicts and their evidence.

import { h, said, saidBlock } from "./dom.js";
import { asText, isEmpty, number, outcomeBadge, when } from "./format.js";
import { jsonTree } from "./json_tree.js";
import { callCard } from "./model.js";

// Returns the tab of an episode's judgements, the last one first; it decides the outcome.
export function judgeTab(episode) {
  const judgements = [...(episode.judgements ?? [])].reverse();
  return h("div", { class: "judge-tab" }, judgements.map(judgementCard));
}

function judgementCard(judgement) {
  const calls = judgement.calls ?? [];
  const facts = [
    judgement.version && said(judgement.version),
    judgement.reward !== null && judgement.reward !== undefined && `reward ${number(judgement.reward)}`,
    Number.isFinite(judgement.time) && when(judgement.time),
  ].filter(Boolean);
  const evidence = judgement.evidence ?? judgement.findings;
  return h(
    "article",
    { class: "call judgement" },
    h("header", {}, h("h3", {}, said(judgement.judge), " ", outcomeBadge(judgement.outcome)), h("p", { class: "facts" }, facts.map((fact) => h("span", {}, fact)))),
    judgement.reason && saidBlock(asText(judgement.reason), "prose"),
    !isEmpty(evidence) && evidenceOf(evidence),
    calls.length > 0 && h("details", { class: "rest" }, h("summary", {}, `Transcript (${calls.length})`), calls.map((call, i) => callCard(call, `Question ${i + 1}`))),
  );
}

// Shows a judge's questions as text first, and its other findings as a tree.
function evidenceOf(evidence) {
  const questions = Array.isArray(evidence.questions) ? evidence.questions : [];
  const tree = jsonTree(evidence);
  if (questions.length === 0) return [h("h4", {}, "Evidence"), tree];
  return [
    h("h4", {}, "Evidence"),
    h("ul", {}, questions.map(questionOf)),
    h("details", { class: "rest" }, h("summary", {}, "All findings"), tree),
  ];
}

function questionOf(question) {
  const reasons = [question?.reasons ?? []].flat().slice(0, 20);
  return h(
    "li",
    { class: "question" },
    h("p", {}, h("b", {}, said(asText(question?.question))), outcomeBadge(asText(question?.verdict))),
    reasons.map((reason) => saidBlock(asText(reason), "prose")),
  );
}
