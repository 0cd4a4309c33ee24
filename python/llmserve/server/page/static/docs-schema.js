// Schemas as tables, and examples of what they describe.

import { button, el } from "./dom.js";
import { inline } from "./inline.js";

/**
 * @typedef {Record<string, any>} Schema
 *
 * @typedef {object} Operation
 * @property {string} operationId
 * @property {string} summary
 * @property {string} description
 * @property {{ name: string, in: "path" | "query" | "header", required: boolean, description: string, schema: Schema }[]} [parameters]
 * @property {{ content: Record<string, { schema: Schema }> }} [requestBody]
 * @property {Record<string, { description: string, content?: Record<string, { schema?: Schema, examples?: Record<string, { value: unknown }> }> }>} responses
 *
 * @typedef {object} Document
 * @property {{ title: string, version: string, description: string }} info
 * @property {Record<string, Record<string, Operation>>} paths
 * @property {{ schemas: Record<string, Schema> }} components
 * @property {unknown[]} [security]
 */

/** The name of the schema that another refers to. @param {Schema} schema @returns {string | null} */
function refName(schema) {
  return schema.$ref?.split("/").pop() ?? null;
}

/** @param {Schema} schema @param {Document} document_ @returns {Schema} */
export function resolved(schema, document_) {
  const name = refName(schema);
  return name ? document_.components.schemas[name] : schema;
}

/** A type in words. @param {Schema} schema @returns {string} */
export function typeText(schema) {
  if (schema.$ref) return refName(schema) ?? "";
  if (schema.anyOf) return schema.anyOf.map(typeText).join(" | ");
  if (schema.allOf) return schema.allOf.map(typeText).join(" & ");
  if (schema.enum) return schema.enum.map(String).join(" | ");
  if (schema.type === "array" && schema.items) return `array of ${typeText(schema.items)}`;
  return schema.type ? [schema.type].flat().join(" | ") : "any";
}

/** @param {Schema} schema */
function limits(schema) {
  const notes = [];
  if (schema.default !== undefined) notes.push(`default ${JSON.stringify(schema.default)}`);
  if (schema.minimum !== undefined) notes.push(`at least ${schema.minimum}`);
  if (schema.exclusiveMinimum !== undefined) notes.push(`above ${schema.exclusiveMinimum}`);
  if (schema.maximum !== undefined) notes.push(`at most ${schema.maximum}`);
  return notes.join(", ");
}

/** @param {Schema} schema */
function typeCell(schema) {
  const name = refName(schema) ?? (schema.items && refName(schema.items));
  return el("td", {}, name ? el("a", { href: `#schema-${name}` }, typeText(schema)) : typeText(schema));
}

/**
 * The properties of a schema, the required ones first.
 * @param {Schema} schema
 * @param {(name: string, property: Schema) => void} [onAdd] puts a property into the request
 */
export function schemaTable(schema, onAdd) {
  const isNeeded = (/** @type {string} */ name) => (schema.required ?? []).includes(name);
  const properties = Object.entries(schema.properties ?? {}).sort(([a], [b]) => Number(isNeeded(b)) - Number(isNeeded(a)));
  const rows = properties.map(([name, property]) => {
    const add = onAdd && button("+", () => onAdd(name, property), {
      class: "quiet", "aria-label": `Add ${name} to the body`, title: "Add to the body",
    });
    return el("tr", {},
      el("td", {}, el("code", {}, name), isNeeded(name) && el("span", { class: "required" }, " required"), " ", add || null),
      typeCell(property), el("td", { class: "muted" }, limits(property)), el("td", {}, ...inline(property.description ?? "")));
  });
  const heads = ["field", "type", "limits", "meaning"].map((title) => el("th", { scope: "col" }, title));
  return el("table", {}, el("tr", {}, ...heads), ...rows);
}

/**
 * A schema's properties, or what it is in words.
 * @param {Schema} schema
 * @param {Document} document_
 * @param {(name: string, property: Schema) => void} [onAdd]
 * @returns {Node}
 */
export function schemaView(schema, document_, onAdd) {
  const parts = (schema.allOf ?? [schema]).map((/** @type {Schema} */ part) => resolved(part, document_));
  return el("div", {}, ...parts.map((part) => (part.properties
    ? schemaTable(part, onAdd) : el("p", {}, ...inline(part.description ?? typeText(part))))));
}

/**
 * A value that fits a property.
 * @param {Schema} schema
 * @param {Document} document_
 * @returns {unknown}
 */
export function exampleValue(schema, document_) {
  const target = resolved(schema, document_);
  if (target.examples?.length) return target.examples[0];
  if (target.default !== undefined) return target.default;
  if (target.enum) return target.enum[0];
  if (target.anyOf) return exampleValue(target.anyOf[0], document_);
  if (target.properties) return exampleBody(target, document_, "");
  const byType = { string: "", boolean: true, integer: target.minimum ?? 0, number: target.minimum ?? 0, array: [], object: {} };
  return byType[/** @type {keyof typeof byType} */ ([target.type].flat()[0])] ?? null;
}

/** How tokens are drawn is left to the server. */
const SAMPLING = /^(temperature|top_?[kp]|repeat_?penalty|logit_bias)$/i;

/**
 * A body with what is required or has an example; switches stay as they are, but streams stream.
 * @param {Schema} schema
 * @param {Document} document_
 * @param {string} model the id of a model, for where ids are wanted
 */
export function exampleBody(schema, document_, model) {
  const target = resolved(schema, document_);
  /** @type {Record<string, unknown>} */
  const body = {};
  for (const [name, property] of Object.entries(target.properties ?? {})) {
    const [example] = property.examples ?? [];
    const isRequired = (target.required ?? []).includes(name);
    if (name === "model" && model && !String(example ?? "").startsWith("/")) body[name] = model;
    else if (name === "stream") body[name] = true;
    else if (isRequired || (example !== undefined && !SAMPLING.test(name))) body[name] = exampleValue(property, document_);
  }
  return "model" in body ? { model: body.model, ...body } : body;
}
