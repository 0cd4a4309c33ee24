// Shows openapi.json, and lets one send requests to this server.

import { send } from "./api.js";
import { byId, el } from "./dom.js";
import { breakable, operationView } from "./docs-operation.js";
import { schemaTable } from "./docs-schema.js";
import { inline } from "./inline.js";
import { remember, remembered } from "./session.js";

/** @typedef {import("./docs-schema.js").Document} Document */

/**
 * Ids of models for examples; empty where the list needs a key.
 * @returns {Promise<import("./docs-operation.js").ExampleModels>}
 */
async function exampleModels() {
  const response = await send("v1/models").catch(() => null);
  const { models: listed } = response?.ok ? await response.json() : { models: [] };
  const first = (/** @type {string} */ output) => {
    const fitting = listed.filter((/** @type {any} */ model) => model.outputs.includes(output));
    return (fitting.find((/** @type {any} */ model) => model.loaded) ?? fitting[0])?.name ?? "";
  };
  return { text: first("text"), dense: first("dense") };
}

/** @param {Document} document_ */
function showOperations(document_) {
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      byId("operations").append(operationView({ path, method, operation, document_, exampleModels }));
      const link = el("a", { href: `#${operation.operationId}` },
        el("span", { class: `method ${method}` }, method.toUpperCase()), el("span", {}, ...breakable(path)));
      byId("contents").append(el("li", { "data-text": `${path} ${operation.summary}`.toLowerCase() }, link));
    }
  }
}

/** @param {Document} document_ */
function showSchemas(document_) {
  for (const [name, schema] of Object.entries(document_.components.schemas)) {
    byId("schemas").append(el("details", { class: "schema", id: `schema-${name}` },
      el("summary", {}, name), el("p", { class: "muted" }, ...inline(schema.description)), schemaTable(schema)));
  }
}

/** Opens what the address names. */
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!(target instanceof HTMLDetailsElement)) return;
  target.open = true;
  target.scrollIntoView();
}

function filter() {
  const wanted = byId("filter").value.trim().toLowerCase();
  for (const item of byId("contents").children) item.hidden = !item.dataset.text.includes(wanted);
}

async function main() {
  const response = await send("openapi.json");
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  /** @type {Document} */
  const document_ = await response.json();
  byId("title").textContent = `${document_.info.title} ${document_.info.version}`;
  byId("key-row").hidden = !document_.security;
  byId("key").value = remembered("key");
  byId("key").addEventListener("input", () => remember("key", byId("key").value.trim()));
  byId("key-row").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
  showOperations(document_);
  showSchemas(document_);
  byId("filter").addEventListener("input", filter);
  addEventListener("hashchange", openTarget);
  openTarget();
  byId("description").replaceChildren(...inline(document_.info.description));
}

main().catch((error) => { byId("description").textContent = `openapi.json could not be read: ${error.message}`; });
