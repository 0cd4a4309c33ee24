"use strict";

// Renders openapi.json and lets one send requests to this server, streams included.

const byId = (id) => document.getElementById(id);

function element(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function refName(schema) {
  return schema && schema.$ref ? schema.$ref.split("/").pop() : null;
}

function typeText(schema) {
  if (schema.$ref) return refName(schema);
  if (schema.anyOf) return schema.anyOf.map(typeText).join(" | ");
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array" && schema.items) return `array of ${typeText(schema.items)}`;
  const types = schema.type ? [schema.type].flat().join(" | ") : "any";
  return schema.format ? `${types} (${schema.format})` : types;
}

function typeCell(schema) {
  const cell = element("td");
  const name = refName(schema);
  if (name) {
    const link = element("a", name);
    link.href = `#schema-${name}`;
    cell.append(link);
  } else {
    cell.append(typeText(schema));
  }
  return cell;
}

function limits(schema) {
  const notes = [];
  if (schema.default !== undefined) notes.push(`default ${JSON.stringify(schema.default)}`);
  if (schema.minimum !== undefined) notes.push(`at least ${schema.minimum}`);
  if (schema.maximum !== undefined) notes.push(`at most ${schema.maximum}`);
  return notes.join(", ");
}

function schemaTable(schema) {
  const table = element("table");
  const head = table.createTHead().insertRow();
  for (const title of ["field", "type", "", "meaning"]) head.append(element("th", title));
  const body = table.createTBody();
  for (const [name, property] of Object.entries(schema.properties || {})) {
    const row = body.insertRow();
    const cell = element("td");
    cell.append(element("code", name));
    if ((schema.required || []).includes(name)) cell.append(element("span", " required", "required"));
    row.append(cell, typeCell(property), element("td", limits(property)), element("td", property.description || ""));
  }
  return table;
}

function schemaView(schema, document_) {
  const name = refName(schema);
  const target = name ? document_.components.schemas[name] : schema;
  return target.properties ? schemaTable(target) : element("p", target.description || target.type || "");
}

function exampleOf(schema, document_) {
  const target = refName(schema) ? document_.components.schemas[refName(schema)] : schema;
  const example = {};
  for (const [name, property] of Object.entries(target.properties || {})) {
    if (property.examples) example[name] = property.examples[0];
    else if (property.type === "boolean") example[name] = true;
  }
  return example;
}

function responseList(operation, document_) {
  const list = element("dl");
  for (const [status, response] of Object.entries(operation.responses)) {
    list.append(element("dt", status));
    const text = element("dd", response.description);
    for (const [media, content] of Object.entries(response.content || {})) {
      const details = element("details");
      details.append(element("summary", media));
      if (content.schema) details.append(schemaView(content.schema, document_));
      for (const example of Object.values(content.examples || {})) {
        const value = typeof example.value === "string" ? example.value : JSON.stringify(example.value, null, 2);
        details.append(element("pre", value));
      }
      text.append(details);
    }
    list.append(text);
  }
  return list;
}

// The text that a stream's events carry, for reading instead of raw frames.
function textOf(raw) {
  let text = "";
  for (const line of raw.split("\n")) {
    if (!line.startsWith("data: {")) continue;
    try {
      const event = JSON.parse(line.slice(6));
      text += ("event" in event ? event.text : event.message) ?? "";
    } catch {
      // the last line is not complete yet
    }
  }
  return text;
}

async function send(path, method, view) {
  const controller = new AbortController();
  const request = { method, signal: controller.signal, headers: {} };
  const key = byId("key").value.trim();
  if (key) request.headers.Authorization = `Bearer ${key}`;
  if (method !== "GET") {
    request.headers["Content-Type"] = "application/json";
    request.body = view.querySelector("textarea").value;
  }
  const [status, output, stop] = [".status", ".output", ".stop"].map((name) => view.querySelector(name));
  const isTextOnly = view.querySelector(".text-view");
  let raw = "";
  const show = () => { output.textContent = isTextOnly.checked ? textOf(raw) : raw; };
  isTextOnly.onchange = show;
  stop.disabled = false;
  stop.onclick = () => controller.abort();
  status.textContent = "…";
  show();
  try {
    const response = await fetch(path.slice(1), request);
    const seen = [...response.headers].filter(([name]) => name.startsWith("x-") || name === "retry-after");
    status.textContent = [`${response.status} ${response.statusText}`, ...seen.map((pair) => pair.join(": "))].join("\n");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      raw += value;
      show();
    }
  } catch (error) {
    status.textContent += `\n${error.name === "AbortError" ? "stopped" : error}`;
  } finally {
    stop.disabled = true;
  }
}

function operationView(path, method, operation, document_) {
  const view = byId("operation").content.cloneNode(true).querySelector("article");
  const fill = (name, text) => { view.querySelector(name).textContent = text; };
  view.id = operation.operationId;
  fill(".method", method.toUpperCase());
  fill(".path", path);
  fill(".summary", operation.summary);
  fill(".text", operation.description);
  const content = operation.requestBody?.content["application/json"];
  if (content) {
    view.querySelector(".body-schema").append(schemaView(content.schema, document_));
    view.querySelector("textarea").value = JSON.stringify(exampleOf(content.schema, document_), null, 2);
  } else {
    for (const name of [".body-title", ".body-schema", ".body", ".text-view-row"]) view.querySelector(name).hidden = true;
  }
  view.querySelector(".responses").append(responseList(operation, document_));
  view.querySelector(".send").onclick = () => send(path, method.toUpperCase(), view);
  return view;
}

async function main() {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`openapi.json: ${answer.status} ${answer.statusText}`);
  const document_ = await answer.json();
  byId("title").textContent = `${document_.info.title} ${document_.info.version}`;
  byId("description").textContent = document_.info.description;
  byId("key-row").hidden = !document_.security;
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      byId("operations").append(operationView(path, method, operation, document_));
      const link = element("a", path);
      link.href = `#${operation.operationId}`;
      // The space lets the line break.
      byId("contents").append(link, " ");
    }
  }
  for (const [name, schema] of Object.entries(document_.components.schemas)) {
    const details = element("details");
    details.id = `schema-${name}`;
    details.append(element("summary", name), element("p", schema.description || ""), schemaTable(schema));
    byId("schemas").append(details);
  }
}

main().catch((error) => { byId("description").textContent = `The document could not be read: ${error}`; });
