// Markdown within a paragraph, as nodes: code, emphasis, links. Models' text never becomes markup.

import { el } from "./dom.js";

const MAX_DEPTH = 6;
const LINK = /!?\[((?:[^[\]\\]|\\.)*)\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+"[^"]*")?\s*\)/y;
const BARE_LINK = /<?(https?:\/\/[^\s<>]+)>?/y;
const ESCAPED = /\\([!-/:-@[-`{-~])/y;
const SAFE_PROTOCOLS = new Set(["http:", "https:", "mailto:"]);
const MARKS = /** @type {const} */ ([
  ["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"],
]);

/**
 * A link that opens in a tab of its own, or its text if it leads to no web or mail address.
 * @param {string} target
 * @param {(Node | string)[]} children
 * @returns {Node}
 */
function link(target, children) {
  let url = null;
  try {
    url = new URL(target);
  } catch {
    // A relative or broken address: there is nowhere to go from a chat.
  }
  if (url === null || !SAFE_PROTOCOLS.has(url.protocol)) return el("span", {}, ...children);
  return el("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, ...children);
}

/**
 * The nodes of a text.
 * @param {string} text
 * @param {number} [depth]
 * @returns {(Node | string)[]}
 */
export function inline(text, depth = 0) {
  /** @type {(Node | string)[]} */
  const nodes = [];
  let plain = "";
  let at = 0;
  while (at < text.length) {
    const found = depth < MAX_DEPTH ? special(text, at, depth) : null;
    if (found === null) {
      plain += text[at];
      at += 1;
      continue;
    }
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(found.node);
    at = found.end;
  }
  if (plain) nodes.push(plain);
  return nodes;
}

/**
 * What begins at a position, if it is more than a character.
 * @param {string} text
 * @param {number} at
 * @param {number} depth
 * @returns {{ node: Node | string, end: number } | null}
 */
function special(text, at, depth) {
  switch (text[at]) {
    case "\n":
      return { node: el("br"), end: at + 1 };
    case "\\": {
      const match = matchAt(ESCAPED, text, at);
      return match && { node: match[1], end: at + match[0].length };
    }
    case "`":
      return codeSpan(text, at);
    case "[":
    case "!": {
      const match = matchAt(LINK, text, at);
      // Pictures are only named: the page loads nothing from elsewhere.
      return match && { node: link(match[2], inline(match[1] || match[2], depth + 1)), end: at + match[0].length };
    }
    case "<":
    case "h":
      return bareLink(text, at);
    case "*":
    case "_":
    case "~":
      return emphasis(text, at, depth);
    default:
      return null;
  }
}

/** @param {string} text @param {number} at */
function codeSpan(text, at) {
  const [ticks] = /** @type {RegExpExecArray} */ (matchAt(/`+/y, text, at));
  const begin = at + ticks.length;
  const rest = text.slice(begin).match(new RegExp(`(?<!\`)${ticks}(?!\`)`));
  if (rest === null || rest.index === undefined) return { node: ticks, end: begin };
  const code = text.slice(begin, begin + rest.index).replace(/\n/g, " ").replace(/^ (.*\S.*) $/, "$1");
  return { node: el("code", {}, code), end: begin + rest.index + ticks.length };
}

/** @param {string} text @param {number} at */
function bareLink(text, at) {
  if (text[at] === "h" && /\w/.test(text[at - 1] ?? "")) return null;
  const match = matchAt(BARE_LINK, text, at);
  if (match === null) return null;
  const isBracketed = match[0].startsWith("<");
  if (isBracketed !== match[0].endsWith(">")) return null;
  const target = isBracketed ? match[1] : match[1].replace(/[.,:;!?'")\]*_]+$/, "");
  return { node: link(target, [target]), end: at + (isBracketed ? match[0].length : target.length) };
}

/** @param {string} text @param {number} at @param {number} depth */
function emphasis(text, at, depth) {
  for (const [mark, tag] of MARKS) {
    if (!text.startsWith(mark, at) || !/\S/.test(text[at + mark.length] ?? "")) continue;
    // `snake_case` is no emphasis.
    if (mark[0] === "_" && /\w/.test(text[at - 1] ?? "")) continue;
    const end = closing(text, mark, at + mark.length);
    if (end < 0) continue;
    const inner = text.slice(at + mark.length, end);
    return { node: el(tag, {}, ...inline(inner, depth + 1)), end: end + mark.length };
  }
  return null;
}

/**
 * Where a mark closes what it opened before `from`; -1 if it does not.
 * @param {string} text @param {string} mark @param {number} from
 */
function closing(text, mark, from) {
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + mark.length)) {
    const after = text[at + mark.length] ?? "";
    if (/\s/.test(text[at - 1]) || at === from) continue;
    if (mark[0] === "_" && /\w/.test(after)) continue;
    if (mark.length === 1 && after === mark) {
      at += 1;
      continue;
    }
    // Of `***`, the first belongs to what is inside.
    return mark.length === 2 && after === mark[0] ? at + 1 : at;
  }
  return -1;
}

/** @param {RegExp} pattern @param {string} text @param {number} at */
function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}
