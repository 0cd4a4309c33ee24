// The next request as a program would send it.

import { BASE } from "./api.js";
import { copyButton, el, button } from "./dom.js";
import { PATH } from "./request.js";
import { remembered } from "./session.js";

const OPENAI_FIELDS = new Set([
  "model", "messages", "temperature", "top_p", "max_tokens", "seed", "stop", "logprobs", "top_logprobs",
  "response_format", "tools", "stream",
]);

/**
 * @param {Record<string, unknown>} body
 * @param {Record<string, string>} headers
 */
export function asCurl(body, headers) {
  const options = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)} `);
  if (remembered("key")) options.unshift('-H "Authorization: Bearer $LLMSERVE_API_KEY" ');
  return `curl -N ${options.join("")}${new URL(PATH, BASE)} --json ${quoted(JSON.stringify(body, null, 2))}`;
}

/** A word of a POSIX shell. @param {string} text */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * @param {Record<string, unknown>} body
 * @param {Record<string, string>} headers
 */
export function asPython(body, headers) {
  const entries = Object.entries(body);
  const extra = Object.fromEntries(entries.filter(([name]) => !OPENAI_FIELDS.has(name)));
  const lines = entries.filter(([name]) => OPENAI_FIELDS.has(name)).map(([name, value]) => `    ${name}=${literal(value, 1)},`);
  if (Object.keys(extra).length) lines.push(`    extra_body=${literal(extra, 1)},`);
  if (Object.keys(headers).length) lines.push(`    extra_headers=${literal(headers, 1)},`);
  const needsKey = Boolean(remembered("key"));
  return [
    ...(needsKey ? ["import os", ""] : []),
    "from openai import OpenAI", "",
    `client = OpenAI(base_url=${literal(String(new URL("v1", BASE)), 0)}, api_key=${needsKey ? 'os.environ["LLMSERVE_API_KEY"]' : '"none"'})`,
    "stream = client.chat.completions.create(", ...lines, ")",
    "for chunk in stream:",
    "    if chunk.choices:",
    '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
  ].join("\n");
}

/**
 * A value as Python writes it.
 * @param {unknown} value
 * @param {number} depth
 * @returns {string}
 */
function literal(value, depth) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  // JSON's strings without surrogate pairs are Python's.
  if (typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((item) => literal(item, depth + 1))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item, depth + 1)}`);
  const [open, close] = isList ? "[]" : "{}";
  const flat = `${open}${items.join(", ")}${close}`;
  if (flat.length < 80 && !flat.includes("\n")) return flat;
  const indent = "    ".repeat(depth + 1);
  return `${open}\n${items.map((item) => `${indent}${item},\n`).join("")}${"    ".repeat(depth)}${close}`;
}

/**
 * Shows both forms of a request.
 * @param {Record<string, unknown>} body
 * @param {Record<string, string>} headers
 */
export function showSnippets(body, headers) {
  const whole = { ...body, stream: true };
  const section = (/** @type {string} */ name, /** @type {string} */ code) => el("section", {},
    el("div", { class: "row between" }, el("h3", {}, name), copyButton("Copy", () => code)),
    el("pre", { tabindex: "0" }, code));
  const dialog = el("dialog", { class: "wide", "aria-labelledby": "code-title", onclose: () => dialog.remove() },
    el("h2", { id: "code-title" }, "The next request as code"),
    section("curl", asCurl(whole, headers)), section("Python", asPython(whole, headers)),
    el("div", { class: "row end" }, button("Close", () => dialog.close(), { class: "primary" })));
  document.body.append(dialog);
  dialog.showModal();
}
