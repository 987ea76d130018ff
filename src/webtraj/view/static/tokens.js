// A reply's tokens, coloured by probability.

import { fill, h, said } from "./dom.js";
import { number } from "./format.js";

// The upper limits of the probability classes; the stylesheet has the colours.
const LIMITS = [0.05, 0.2, 0.5, 0.8, 0.95];
const AT_ONCE = 4_000;

// Returns a reply's tokens, with the details of the selected one below. Arrow keys move along.
export function tokenStrip(tokens) {
  const told = h("div", { class: "token-told", aria: { live: "polite" } }, "Point at a token, or use ← and →.");
  const spans = tokens.slice(0, AT_ONCE).map((token, i) =>
    h("span", { class: "token", data: { at: i, sure: sureness(token.logprob) } }, visibleText(token.text ?? `⟨${token.id}⟩`)),
  );
  let at = -1;
  const look = (index) => {
    spans[at]?.classList.remove("looked-at");
    at = index;
    spans[at].classList.add("looked-at");
    fill(told, describe(tokens[at], at));
  };
  const strip = h(
    "div",
    {
      class: "tokens said", dir: "auto", tabindex: 0, role: "group", aria: { label: `${tokens.length} tokens` },
      on: {
        mouseover: (event) => event.target.dataset.at && look(Number(event.target.dataset.at)),
        keydown: (event) => {
          const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!by) return;
          event.preventDefault();
          look(Math.max(0, Math.min(spans.length - 1, at + by)));
        },
      },
    },
    spans,
  );
  const rest = tokens.length - spans.length;
  return h(
    "div",
    { class: "token-strip" },
    strip,
    rest > 0 && h("p", { class: "nothing" }, `${number(rest)} more tokens are in the raw data.`),
    told,
    h("p", { class: "sure-legend" }, "probability ", [0, 1, 2, 3, 4, 5].map((sure) => h("span", { class: "token", data: { sure } }, ["< 5%", "< 20%", "< 50%", "< 80%", "< 95%", "≥ 95%"][sure]))),
  );
}

function sureness(logprob) {
  if (typeof logprob !== "number") return "unknown";
  const below = LIMITS.findIndex((limit) => Math.exp(logprob) < limit);
  return below < 0 ? LIMITS.length : below;
}

function visibleText(text) {
  return String(text).replaceAll("\n", "↵\n").replaceAll("\t", "⇥");
}

function describe(token, index) {
  const sure = typeof token.logprob === "number" ? `${number(Math.exp(token.logprob) * 100)}% (logprob ${token.logprob.toFixed(3)})` : "no logprob";
  const others = (token.top ?? []).slice(0, 8).map((other) => {
    const [text, logprob] = Array.isArray(other) ? other : [other.text ?? other.token ?? other.id, other.logprob];
    return h("li", {}, said(JSON.stringify(String(text ?? "")).slice(0, 60)), ` ${number(Math.exp(logprob) * 100)}%`);
  });
  return [
    h("p", {}, `Token ${index + 1}`, token.id === null || token.id === undefined ? "" : `, id ${token.id}`, ": ", said(JSON.stringify(String(token.text ?? "")).slice(0, 100)), ` ${sure}`),
    others.length > 0 && h("ul", { class: "others" }, others),
  ];
}
