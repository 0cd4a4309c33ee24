// Asks for the API key.

import { button, el } from "./dom.js";

/** @type {Promise<string | null> | null} */
let asking = null;

/**
 * The key that the user enters, or `null` if they do not want to. All who ask at a time get one answer.
 * @param {string} problem
 * @returns {Promise<string | null>}
 */
export function askForKey(problem) {
  asking ??= ask(problem).finally(() => { asking = null; });
  return asking;
}

/**
 * @param {string} problem
 * @returns {Promise<string | null>}
 */
function ask(problem) {
  /** @type {string | null} */
  let given = null;
  const input = el("input", {
    id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true,
  });
  const onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    given = input.value.trim() || null;
    dialog.close();
  };
  const dialog = el("dialog", { "aria-labelledby": "key-title" },
    el("form", { onsubmit },
      el("h2", { id: "key-title" }, "API key"),
      el("p", { class: "muted" }, "This server asks for a key. It stays in this tab until you close it."),
      el("label", { for: "key" }, "Key"),
      input,
      problem && el("p", { class: "problem", role: "alert" }, problem),
      el("div", { class: "row end" },
        button("Cancel", () => dialog.close(), { class: "quiet" }),
        el("button", { type: "submit", class: "primary" }, "Continue"))));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
  });
}
