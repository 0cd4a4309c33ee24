// The panel with the system prompt, sampling and output settings.

import { load, save } from "./store.js";

/** @typedef {import("./request.js").Settings} Settings */

/** Reads the fields of a form by their names, and keeps them. */
export class SettingsPanel {
  /** @param {HTMLFormElement} form */
  constructor(form) {
    this.form = form;
    this.#write(load("settings", {}));
    form.addEventListener("input", () => this.#keep());
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => this.#keep()));
  }

  /** @returns {Settings} */
  get values() {
    const entries = this.#fields().map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]);
    return Object.fromEntries(entries);
  }

  #fields() {
    return /** @type {HTMLInputElement[]} */ ([...this.form.elements]).filter(({ name }) => name);
  }

  /** @param {Record<string, unknown>} values */
  #write(values) {
    for (const field of this.#fields()) {
      const value = values[field.name];
      if (value === undefined) continue;
      if (field.type === "checkbox") field.checked = Boolean(value);
      else field.value = String(value);
    }
    this.#showDependent();
  }

  #keep() {
    save("settings", this.values);
    this.#showDependent();
  }

  /** Fields that a switch makes useful are there while it is on. */
  #showDependent() {
    for (const node of this.form.querySelectorAll("[data-needs]")) {
      const needed = this.form.elements.namedItem(/** @type {HTMLElement} */ (node).dataset.needs ?? "");
      /** @type {HTMLElement} */ (node).hidden = !/** @type {HTMLInputElement} */ (needed).checked;
    }
  }
}
