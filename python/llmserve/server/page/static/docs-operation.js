// One operation: what it takes and gives, and a form that sends it.

import { BASE, isAbort, send } from "./api.js";
import { button, copyButton, el } from "./dom.js";
import { exampleBody, exampleValue, schemaView, typeText } from "./docs-schema.js";
import { inline } from "./inline.js";
import { texts } from "./sse.js";
import { textOf } from "./stream-text.js";

/**
 * @typedef {import("./docs-schema.js").Document} Document
 * @typedef {import("./docs-schema.js").Operation} Operation
 * @typedef {NonNullable<Operation["parameters"]>[number]} Parameter
 *
 * @typedef {{ text: string, dense: string }} ExampleModels ids of models for examples, by what they give
 *
 * @typedef {object} Described
 * @property {string} path
 * @property {string} method
 * @property {Operation} operation
 * @property {Document} document_
 * @property {() => Promise<ExampleModels>} exampleModels those that the server has now
 */

/** A path whose lines end between its parts. @param {string} path */
export function breakable(path) {
  return path.split(/(?=\/)/).flatMap((part) => [el("wbr"), part]);
}

/** @param {Described} described */
export function operationView(described) {
  const { path, method, operation } = described;
  const view = el("details", { class: "operation", id: operation.operationId },
    el("summary", {}, el("span", { class: `method ${method}` }, method.toUpperCase()),
      el("code", { class: "path" }, ...breakable(path)), el("span", { class: "muted" }, operation.summary)));
  // The tables of all operations together are long: each is made when it is first wanted.
  const onOpen = async () => view.append(details(described, await described.exampleModels()));
  view.addEventListener("toggle", onOpen, { once: true });
  return view;
}

/** @param {Described} described @param {ExampleModels} models */
function details({ path, method, operation, document_ }, models) {
  const model = /embedding/i.test(operation.operationId) ? models.dense : models.text;
  const schema = operation.requestBody?.content["application/json"].schema;
  const body = schema && el("textarea", { class: "code", rows: "8", spellcheck: "false" });
  if (body) body.value = JSON.stringify(exampleBody(schema, document_, model), null, 2);
  const onAdd = (/** @type {string} */ name, /** @type {any} */ property) => {
    if (!body) return;
    try {
      body.value = JSON.stringify({ ...JSON.parse(body.value || "{}"), [name]: exampleValue(property, document_) }, null, 2);
    } catch {
      // The user is writing it.
    }
  };
  const fields = (operation.parameters ?? []).map((parameter) => ({ parameter, input: parameterInput(parameter, model) }));
  return el("div", {},
    el("p", {}, ...inline(operation.description)),
    tryForm({ path, method, body, fields }),
    schema && el("h3", {}, "Request body"),
    schema && schemaView(schema, document_, onAdd),
    el("h3", {}, "Responses"), responseList(operation, document_));
}

/**
 * @param {Parameter} parameter
 * @param {string} model
 */
function parameterInput({ name, in: place, schema, required }, model) {
  const options = schema.type === "boolean" ? ["true", "false"] : schema.enum;
  if (options) return el("select", {}, el("option", { value: "" }, "not sent"), ...options.map((option) => el("option", {}, option)));
  const input = el("input", { required, placeholder: required ? "" : "not sent", spellcheck: "false" });
  if (place !== "header" && /^model(_id)?$/.test(name)) input.value = model;
  return input;
}

/**
 * @typedef {object} Form
 * @property {string} path
 * @property {string} method
 * @property {HTMLTextAreaElement | undefined} body
 * @property {{ parameter: Parameter, input: HTMLInputElement | HTMLSelectElement }[]} fields
 */

/** @param {Form} form */
function tryForm(form) {
  const isTextOnly = el("input", { type: "checkbox" });
  const status = el("p", { class: "status", role: "status" });
  const output = el("pre", { class: "output", tabindex: "0", "aria-label": "Answer" });
  const stop = button("Stop", () => running?.abort(), { disabled: true });
  const textSwitch = el("label", { class: "switch", hidden: true }, isTextOnly, "Text of the stream only");
  /** @type {AbortController | null} */
  let running = null;
  let raw = "";
  const show = () => { output.textContent = isTextOnly.checked ? textOf(raw) : raw; };
  isTextOnly.addEventListener("change", show);
  const onsubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    running?.abort();
    const controller = running = new AbortController();
    stop.disabled = false;
    raw = "";
    show();
    status.textContent = "…";
    try {
      const response = await send(addressOf(form), callOf(form, controller.signal));
      status.textContent = head(response);
      const isStream = (response.headers.get("Content-Type") ?? "").startsWith("text/event-stream");
      textSwitch.hidden = !isStream;
      for await (const text of texts(response)) {
        raw += text;
        show();
      }
      if (!isStream) raw = indented(raw);
      show();
    } catch (error) {
      status.textContent += `\n${isAbort(error) ? "stopped" : error}`;
    }
    if (running === controller) stop.disabled = true;
  };
  return el("form", { class: "try", onsubmit },
    ...form.fields.map(({ parameter, input }) => el("label", {},
      el("span", {}, ...inline(`\`${parameter.name}\` (${parameter.in}, ${typeText(parameter.schema)}): ${parameter.description}`)), input)),
    form.body && el("label", {}, el("span", {}, "Body"), form.body),
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary" }, "Send"), stop,
      copyButton("Copy as curl", () => asCurl(form)), textSwitch),
    status, output);
}

/** @param {Form} form */
function addressOf({ path, fields }) {
  const query = new URLSearchParams();
  let address = path;
  for (const { parameter: { name, in: place }, input: { value } } of fields) {
    if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === "query" && value) query.set(name, value);
  }
  return query.size ? `${address}?${query}` : address;
}

/** @param {Form} form @param {AbortSignal} [signal] */
function callOf({ method, body, fields }, signal) {
  const given = fields.filter(({ parameter, input }) => parameter.in === "header" && input.value);
  const headers = Object.fromEntries(given.map(({ parameter, input }) => [parameter.name, input.value]));
  return { method: method.toUpperCase(), text: body?.value, headers, signal };
}

/** @param {Form} form */
function asCurl(form) {
  const { method, text, headers } = callOf(form);
  const quoted = (/** @type {string} */ word) => `'${word.replaceAll("'", "'\\''")}'`;
  const parts = ["curl -N", ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`)];
  if (method !== "GET") parts.push(`-X ${method}`);
  parts.push(quoted(String(new URL(addressOf(form).slice(1), BASE))));
  if (text !== undefined) parts.push(`--json ${quoted(text)}`);
  return parts.join(" ");
}

/** The status and the headers that say something. @param {Response} response */
function head(response) {
  const seen = [...response.headers].filter(([name]) => /^(x-(?!accel)|retry-after)/.test(name));
  return [`${response.status} ${response.statusText}`, ...seen.map((pair) => pair.join(": "))].join("\n");
}

/** @param {string} text */
function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** @param {Operation} operation @param {Document} document_ */
function responseList(operation, document_) {
  return el("dl", { class: "responses" }, ...Object.entries(operation.responses).flatMap(([status, response]) => [
    el("dt", {}, status),
    el("dd", {}, ...inline(response.description), ...Object.entries(response.content ?? {}).map(([media, content]) => el("details", {},
      el("summary", {}, media),
      content.schema && schemaView(content.schema, document_),
      ...Object.values(content.examples ?? {}).map(({ value }) => el("pre", {},
        typeof value === "string" ? value : JSON.stringify(value, null, 2)))))),
  ]));
}
