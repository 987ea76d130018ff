// The model calls of a step: messages and replies.

import { h, isOwnPicture, said, saidBlock } from "./dom.js";
import { asText, count, duration, isEmpty, number } from "./format.js";
import { jsonTree } from "./json_tree.js";
import { tokenStrip } from "./tokens.js";

const FOLDED_ABOVE = 1_500;

// Returns the tab of a step's decision.
export function modelTab(step) {
  const decision = step?.decision;
  if (!decision) return h("p", { class: "nothing" }, "No decision was recorded for this step.");
  const calls = decision.calls ?? [];
  const parts = [
    decision.parse_error && h("p", { class: "error-line" }, "Could not parse the reply: ", said(decision.parse_error)),
    decision.thought && [h("h3", {}, "Thought"), saidBlock(decision.thought, "prose")],
    decision.memory && [h("h3", {}, "Memory"), saidBlock(decision.memory, "prose")],
    calls.length === 0 && h("p", { class: "nothing" }, "No model was called."),
    calls.map((call, i) => callCard(call, calls.length > 1 ? `Call ${i + 1} of ${calls.length}` : "Call")),
  ];
  return h("div", { class: "model-tab" }, parts);
}

// Returns one model call, an agent's or a judge's.
export function callCard(call, title) {
  const facts = [
    call.model && said(call.model),
    call.policy_version && ["weights ", said(call.policy_version)],
    Number.isFinite(call.latency) && duration(call.latency),
    call.finish_reason && ["finish reason ", said(call.finish_reason)],
    ...Object.entries(call.usage ?? {}).filter(([, value]) => typeof value === "number").map(([name, value]) => [said(name.replaceAll("_", " ")), ` ${number(value)}`]),
  ].filter(Boolean);
  const tokens = call.tokens ?? [];
  return h(
    "article",
    { class: "call" },
    h("header", {}, h("h3", {}, title), h("p", { class: "facts" }, facts.map((fact) => h("span", {}, fact)))),
    call.error && h("p", { class: "error-line" }, "No reply: ", said(asText(call.error))),
    (call.messages ?? []).length > 0 && h("h4", {}, "Sent"),
    (call.messages ?? []).map(messageCard),
    call.reasoning && [h("h4", {}, "Reasoning"), saidBlock(asText(call.reasoning), "prose")],
    h("h4", {}, "Reply"),
    call.reply ? saidBlock(asText(call.reply), "reply") : h("p", { class: "nothing" }, "The reply has no text."),
    tokens.length > 0 && [h("h4", {}, count(tokens.length, "token")), tokenStrip(tokens)],
    !isEmpty(call.failed_attempts) && h("details", { class: "rest" }, h("summary", {}, count(call.failed_attempts.length, "failed attempt")), jsonTree(call.failed_attempts)),
    !isEmpty(call.sampling) && h("details", { class: "rest" }, h("summary", {}, "Sampling"), jsonTree(call.sampling)),
    !isEmpty(call.response) && h("details", { class: "rest" }, h("summary", {}, "Raw response"), jsonTree(call.response)),
  );
}

function messageCard(message) {
  const parts = message.parts ?? [];
  const length = parts.reduce((total, part) => total + asText(part.text).length, 0);
  const pictures = parts.filter((part) => part.image).length;
  const extent = [length > 0 && count(length, "character"), pictures > 0 && count(pictures, "image")].filter(Boolean).join(", ");
  return h(
    "details",
    { class: "message-card", open: length <= FOLDED_ABOVE },
    h("summary", {}, h("b", {}, said(message.role || "message")), h("span", { class: "extent" }, extent)),
    parts.map(partOf),
  );
}

function partOf(part) {
  if (isOwnPicture(part.image)) {
    const { image, width = null, height = null } = part;
    return h("img", { src: image, width, height, alt: "Image in the prompt", class: "sent", decoding: "async", loading: "lazy" });
  }
  if (typeof part.text === "string") return saidBlock(part.text, part.json ? "code" : "prose");
  return saidBlock(asText(part), "code");
}
