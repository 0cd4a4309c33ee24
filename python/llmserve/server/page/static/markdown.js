// Markdown as nodes: paragraphs, headings, lists, tables, quotes and code blocks.

import { copyButton, el } from "./dom.js";
import { inline } from "./inline.js";

const MAX_DEPTH = 6;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/**
 * @typedef {{ source: string, render: () => Node }} Block
 */

/** The source of each block that is shown, so that what has not changed stays. @type {WeakMap<Node, string>} */
const sources = new WeakMap();

/**
 * Shows a text in a node. While a text grows, its finished blocks stay as they are.
 * @param {HTMLElement} node
 * @param {string} text
 */
export function showMarkdown(node, text) {
  const blocks = parse(text.split(/\r?\n/), 0);
  blocks.forEach((block, index) => {
    const shown = node.childNodes[index];
    if (shown && sources.get(shown) === block.source) return;
    const made = block.render();
    sources.set(made, block.source);
    if (shown) shown.replaceWith(made);
    else node.append(made);
  });
  while (node.childNodes.length > blocks.length) node.lastChild?.remove();
}

/**
 * @param {string[]} lines
 * @param {number} depth
 * @returns {Block[]}
 */
function parse(lines, depth) {
  /** @type {Block[]} */
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [end, render] = blockAt(lines, at, depth);
    blocks.push({ source: lines.slice(at, end).join("\n"), render });
    at = end;
  }
  return blocks;
}

/**
 * The block that begins at a line: where it ends, and what shows it.
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {[number, () => Node]}
 */
function blockAt(lines, at, depth) {
  const fence = FENCE.exec(lines[at]);
  if (fence) return codeAt(lines, at, fence[1], fence[2]);
  const heading = HEADING.exec(lines[at]);
  if (heading) {
    // The page has the first two levels.
    const tag = /** @type {"h3" | "h4" | "h5" | "h6"} */ (`h${Math.min(heading[1].length + 2, 6)}`);
    return [at + 1, () => el(tag, {}, ...inline(heading[2]))];
  }
  if (RULE.test(lines[at])) return [at + 1, () => el("hr")];
  if (depth < MAX_DEPTH && QUOTE.test(lines[at])) {
    const end = endOf(lines, at, (line) => QUOTE.test(line));
    const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
    return [end, () => el("blockquote", {}, ...rendered(inner, depth + 1))];
  }
  if (depth < MAX_DEPTH && ITEM.test(lines[at])) return listAt(lines, at, depth);
  if (lines[at].includes("|") && TABLE_RULE.test(lines[at + 1] ?? "")) return tableAt(lines, at);
  const end = endOf(lines, at, (line, index) => index === at || (line.trim() !== "" && !interrupts(line)));
  const text = lines.slice(at, end).map((line) => line.trim()).join("\n");
  return [end, () => el("p", {}, ...inline(text))];
}

/** @param {string} line */
function interrupts(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {(line: string, index: number) => boolean} belongs
 */
function endOf(lines, at, belongs) {
  let end = at;
  while (end < lines.length && belongs(lines[end], end)) end += 1;
  return end;
}

/** @param {string[]} lines @param {number} depth */
function rendered(lines, depth) {
  return parse(lines, depth).map((block) => block.render());
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {string} fence
 * @param {string} language
 * @returns {[number, () => Node]}
 */
function codeAt(lines, at, fence, language) {
  const isClosing = (/** @type {string} */ line) => line.trim().startsWith(fence) && !line.trim().replaceAll(fence[0], "");
  const end = endOf(lines, at + 1, (line) => !isClosing(line));
  const code = lines.slice(at + 1, end).join("\n");
  const render = () => el("figure", { class: "code" },
    el("figcaption", {}, el("span", {}, language || "text"), copyButton("Copy", () => code)),
    el("pre", { tabindex: "0" }, el("code", {}, code)));
  return [Math.min(end + 1, lines.length), render];
}

/**
 * A list with what is indented below its items.
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {[number, () => Node]}
 */
function listAt(lines, at, depth) {
  const [, indent, mark] = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const isOrdered = /\d/.test(mark);
  const belongs = (/** @type {string} */ line) => {
    const item = ITEM.exec(line);
    return item !== null && item[1].length <= indent.length + 1 && /\d/.test(item[2]) === isOrdered;
  };
  /** @type {string[][]} */
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    const isIndented = /^\s/.test(line) && line.search(/\S/) > indent.length;
    if (belongs(line)) items.push([/** @type {RegExpExecArray} */ (ITEM.exec(line))[3]]);
    else if (isIndented || (!line.trim() && continues(lines, end, indent.length, belongs))) items.at(-1)?.push(line);
    else break;
  }
  const start = isOrdered ? Number.parseInt(mark, 10) : 1;
  return [end, () => el(isOrdered ? "ol" : "ul", { start: start === 1 ? null : start },
    ...items.map((item) => el("li", {}, ...itemNodes(item, depth))))];
}

/**
 * Whether a list goes on after blank lines.
 * @param {string[]} lines @param {number} at @param {number} indent @param {(line: string) => boolean} belongs
 */
function continues(lines, at, indent, belongs) {
  const next = lines.slice(at).find((line) => line.trim());
  return next !== undefined && (belongs(next) || next.search(/\S/) > indent);
}

/** @param {string[]} item @param {number} depth */
function itemNodes(item, depth) {
  const [first, ...rest] = item;
  const margin = Math.min(...rest.filter((line) => line.trim()).map((line) => line.search(/\S/)));
  const inner = rendered([first, ...rest.map((line) => line.slice(margin))], depth + 1);
  // A text alone needs no paragraph of its own.
  return inner[0] instanceof HTMLParagraphElement ? [...inner[0].childNodes, ...inner.slice(1)] : inner;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {[number, () => Node]}
 */
function tableAt(lines, at) {
  const end = endOf(lines, at, (line, index) => index < at + 2 || (line.includes("|") && line.trim() !== ""));
  const sides = cells(lines[at + 1]).map((rule) => rule.endsWith(":") && (rule.startsWith(":") ? "center" : "right"));
  const row = (/** @type {"th" | "td"} */ tag, /** @type {string} */ line) => el("tr", {},
    ...cells(line).map((cell, index) => el(tag, { class: sides[index] }, ...inline(cell))));
  return [end, () => el("div", { class: "scroll", tabindex: "0" }, el("table", {},
    el("thead", {}, row("th", lines[at])),
    el("tbody", {}, ...lines.slice(at + 2, end).map((line) => row("td", line)))))];
}

/** @param {string} line */
function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}
