// A text as its tokens, with the probability of each and of its alternatives on hover and focus.

import { el } from "./dom.js";

/** @typedef {import("./store.js").ShownToken} ShownToken */

const tip = el("div", { id: "token-tip", role: "tooltip", hidden: true });

/**
 * Shows tokens in a node. The arrow keys move between them.
 * @param {HTMLElement} node
 * @param {ShownToken[]} tokens
 */
export function showTokens(node, tokens) {
  let view = node.firstElementChild;
  if (view === null || !view.classList.contains("tokens")) {
    view = el("div", { class: "tokens", role: "group", "aria-label": "Tokens with probabilities", onkeydown: move });
    node.replaceChildren(view);
  }
  for (const token of tokens.slice(view.children.length)) view.append(spanOf(token, view.children.length === 0));
}

/** @param {number} logprob */
function percent(logprob) {
  const share = Math.exp(logprob) * 100;
  return `${share >= 10 ? share.toFixed(0) : share >= 0.1 ? share.toFixed(1) : "<0.1"} %`;
}

/** @param {string} text */
function visible(text) {
  return text.replaceAll("\n", "⏎").replaceAll(" ", "␣") || "(empty)";
}

/** @param {ShownToken} token @param {boolean} isFirst */
function spanOf(token, isFirst) {
  const share = Math.exp(token.logprob);
  const level = share > 0.9 ? 0 : share > 0.6 ? 1 : share > 0.3 ? 2 : share > 0.1 ? 3 : 4;
  const show = () => showTip(span, token);
  const span = el("span", {
    class: `token level-${level}${token.isEnd ? " end" : ""}`, tabindex: isFirst ? "0" : "-1", "aria-describedby": tip.id,
    onmouseenter: show, onfocus: show, onmouseleave: hideTip, onblur: hideTip,
  }, token.text);
  return span;
}

/** @param {HTMLElement} span @param {ShownToken} token */
function showTip(span, token) {
  const isDrawn = (/** @type {string} */ text) => text === token.text;
  const rows = token.top.some(({ text }) => isDrawn(text)) ? token.top : [token, ...token.top];
  tip.replaceChildren(el("table", {}, ...rows.map(({ text, logprob }) => {
    const bar = el("span", { class: "fill" });
    bar.style.width = `${Math.max(1, Math.exp(logprob) * 100)}%`;
    return el("tr", { class: isDrawn(text) && "drawn" },
      el("td", { class: "text" }, visible(text)),
      el("td", { class: "number" }, percent(logprob)),
      el("td", { class: "share" }, bar));
  })));
  document.body.append(tip);
  tip.hidden = false;
  const box = span.getClientRects()[0] ?? span.getBoundingClientRect();
  const { offsetWidth, offsetHeight } = tip;
  const fitsAbove = box.top - offsetHeight - 8 > 0;
  tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - offsetWidth - 8))}px`;
  tip.style.top = `${fitsAbove ? box.top - offsetHeight - 6 : box.bottom + 6}px`;
}

function hideTip() {
  tip.hidden = true;
}

document.addEventListener("scroll", hideTip, { capture: true, passive: true });

/** @param {Event} event */
function move(event) {
  const { key } = /** @type {KeyboardEvent} */ (event);
  const from = /** @type {HTMLElement} */ (event.target);
  const to = key === "ArrowRight" ? from.nextElementSibling : key === "ArrowLeft" ? from.previousElementSibling : null;
  if (key === "Escape") hideTip();
  if (!(to instanceof HTMLElement)) return;
  event.preventDefault();
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}
