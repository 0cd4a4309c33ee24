// Choosing, loading and unloading a model.

import { ApiError, isAbort, request, requestJson } from "./api.js";
import { button, byId, el } from "./dom.js";
import { events } from "./sse.js";
import { load, save } from "./store.js";

/**
 * @typedef {{ id: string, state: string, error: string }} ListedModel
 */

/** How each state is shown beside an id. */
const STATES = { loaded: "loaded", loading: "loading…", failed: "failed", available: "not loaded" };

export class ModelPicker {
  constructor() {
    /** @type {ListedModel[]} */
    this.models = [];
    /** @type {AbortController | null} */
    this.loading = null;
    this.select = byId("model");
    this.action = byId("model-action");
    this.progress = byId("model-progress");
    this.status = byId("model-status");
    this.select.addEventListener("change", () => {
      save("model", this.id);
      this.#show();
    });
    this.action.addEventListener("click", () => this.#act());
    byId("model-file").addEventListener("click", () => this.#askForPath());
  }

  /** The chosen model's id; empty if there is none. */
  get id() {
    return this.select.value;
  }

  get #chosen() {
    return this.models.find(({ id }) => id === this.id);
  }

  /**
   * Reads the list again.
   * @param {string} [wanted] the id to choose
   */
  async refresh(wanted) {
    const { models } = await requestJson("v1/models");
    this.models = models
      .filter((/** @type {any} */ model) => model.outputs.includes("text"))
      .map((/** @type {any} */ model) => ({ id: model.name, state: model.state, error: model.last_error?.message ?? "" }));
    const before = wanted ?? (this.id || load("model", ""));
    this.select.replaceChildren(...this.models.map(({ id, state }) => el("option", { value: id },
      state === "loaded" ? id : `${id} (${STATES[/** @type {keyof STATES} */ (state)]})`)));
    const known = this.models.find(({ id }) => id === before) ?? this.models.find(({ state }) => state === "loaded");
    if (known) this.select.value = known.id;
    this.#show();
  }

  #show() {
    const model = this.#chosen;
    this.select.disabled = this.models.length === 0;
    this.action.hidden = model === undefined && this.loading === null;
    this.action.textContent = this.loading ? "Cancel" : model?.state === "loaded" ? "Unload" : "Load";
    this.progress.hidden = this.loading === null;
    if (this.loading === null) {
      const isListEmpty = this.models.length === 0;
      this.#say(isListEmpty ? "The server has no model yet: load one from a file." : model?.state === "failed" ? model.error : "");
    }
  }

  /** @param {string} text */
  #say(text) {
    this.status.textContent = text;
  }

  async #act() {
    if (this.loading) this.cancel();
    else if (this.#chosen?.state === "loaded") await this.#unload();
    else await this.load().catch(() => {});
  }

  /** Ends a load, or the wait for it. */
  cancel() {
    this.loading?.abort();
  }

  async #unload() {
    let problem = "";
    await request("models/unload", { json: { model: this.id } }).catch((error) => { problem = error.message; });
    await this.refresh();
    this.#say(problem);
  }

  /** Loads the chosen model, unless it is loaded already. Fails if the load does, or is cancelled. */
  async load() {
    const { id } = this;
    if (!id) throw new Error("Choose a model first, or load one from a file.");
    if (this.#chosen?.state === "loaded") return;
    await this.#tracked(id, (signal) => this.#loadById(id, signal));
  }

  /**
   * A load of a listed model belongs to the server, and has no events: ask until it is there.
   * @param {string} id @param {AbortSignal} signal
   */
  async #loadById(id, signal) {
    for (;;) {
      try {
        await request("tokenize", { json: { model: id, content: "" }, signal });
        return id;
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "model_loading") throw error;
        await pause(error.retryAfterS ?? 1, signal);
      }
    }
  }

  /**
   * Loads a file with the server's progress events; leaving ends the load.
   * @param {string} path @param {AbortSignal} signal
   */
  async #loadByPath(path, signal) {
    const known = new Set(this.models.map(({ id }) => id));
    const response = await request("models/load", { json: { path }, signal });
    for await (const { event, data } of events(response)) {
      if (event === "error") throw new Error(JSON.parse(data));
      if (data !== "[DONE]") this.progress.value = JSON.parse(data).progress;
    }
    await this.refresh();
    const stem = (path.split("/").pop() ?? "").replace(/\.gguf$/i, "");
    return this.models.find(({ id }) => !known.has(id))?.id ?? stem;
  }

  /**
   * Shows a load while it runs, and what became of it.
   * @param {string} name
   * @param {(signal: AbortSignal) => Promise<string>} work gives the id of the model
   */
  async #tracked(name, work) {
    this.loading = new AbortController();
    this.progress.removeAttribute("value");
    this.#say(`Loading ${name}…`);
    this.#show();
    let id = this.id;
    /** @type {Error | null} */
    let problem = null;
    try {
      id = await work(this.loading.signal);
    } catch (error) {
      problem = isAbort(error) ? new Error("The load was cancelled.") : /** @type {Error} */ (error);
    }
    this.loading = null;
    await this.refresh(id);
    this.#say(problem?.message ?? `${id} is loaded.`);
    if (problem) throw problem;
  }

  #askForPath() {
    const input = el("input", { id: "path", required: true, spellcheck: "false", placeholder: "/models/name.gguf" });
    const onsubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      dialog.close();
      const path = input.value.trim();
      this.#tracked(path, (signal) => this.#loadByPath(path, signal)).catch(() => {});
    };
    const dialog = el("dialog", { "aria-labelledby": "path-title", onclose: () => dialog.remove() },
      el("form", { onsubmit },
        el("h2", { id: "path-title" }, "Load a model from a file"),
        el("p", { class: "muted" }, "A GGUF file on the server. Relative paths start at its folder of models."),
        el("label", { for: "path" }, "Path"), input,
        el("div", { class: "row end" },
          button("Cancel", () => dialog.close(), { class: "quiet" }),
          el("button", { type: "submit", class: "primary" }, "Load"))));
    document.body.append(dialog);
    dialog.showModal();
  }
}

/**
 * @param {number} seconds
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("cancelled", "AbortError"));
    });
  });
}
