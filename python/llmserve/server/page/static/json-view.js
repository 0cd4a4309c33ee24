// A JSON document laid out while it grows.

import { el } from "./dom.js";

const TOKEN = /\s+|"(?:[^"\\]|\\.)*"?|-?\d[\d.eE+-]*|[a-z]+|./gs;

/**
 * @typedef {{ kind: "key" | "string" | "number" | "word" | "mark", text: string }} Part
 */

/**
 * The document's parts, with line breaks and indentation of our own; it need not be complete.
 * @param {string} text
 * @returns {Part[]}
 */
export function layOut(text) {
  const tokens = (text.match(TOKEN) ?? []).filter((token) => token.trim());
  /** @type {Part[]} */
  const parts = [];
  let depth = 0;
  const breakLine = () => parts.push({ kind: "mark", text: `\n${"  ".repeat(depth)}` });
  tokens.forEach((token, index) => {
    const next = tokens[index + 1];
    if (token === "{" || token === "[") {
      depth += 1;
      parts.push({ kind: "mark", text: token });
      if (next !== "}" && next !== "]") breakLine();
    } else if (token === "}" || token === "]") {
      depth = Math.max(0, depth - 1);
      if (!"{[".includes(tokens[index - 1] ?? "{")) breakLine();
      parts.push({ kind: "mark", text: token });
    } else if (token === ",") {
      parts.push({ kind: "mark", text: token });
      breakLine();
    } else {
      parts.push({ kind: kindOf(token, next), text: token === ":" ? ": " : token });
    }
  });
  return parts;
}

/**
 * @param {string} token
 * @param {string | undefined} next
 * @returns {Part["kind"]}
 */
function kindOf(token, next) {
  if (token.startsWith('"')) return next === ":" ? "key" : "string";
  if (/^[-\d]/.test(token)) return "number";
  return /^[a-z]/.test(token) ? "word" : "mark";
}

/**
 * Shows a document in a node.
 * @param {HTMLElement} node
 * @param {string} text
 */
export function showJson(node, text) {
  const spans = layOut(text).map(({ kind, text: part }) => el("span", { class: `json-${kind}` }, part));
  node.replaceChildren(el("pre", { class: "json", tabindex: "0" }, ...spans));
}
