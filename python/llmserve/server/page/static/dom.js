// Small helpers for building pages. Text only ever becomes text nodes.

/**
 * @typedef {string | number | Node | null | undefined | false} Child
 * @typedef {Record<string, unknown>} Attributes
 */

/** Screens on which panels lie beside the conversation, not over it; as in app.css. */
export const WIDE = "(min-width: 70rem)";

/**
 * Creates an element. `on…` attributes are listeners; `null`, `undefined` and `false` leave one out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter(isShown).map(asNode));
  return node;
}

/** @param {Child} child */
function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}

/** @param {Child} child @returns {Node | string} */
function asNode(child) {
  return child instanceof Node ? child : String(child);
}

/**
 * The element of an id, which the page has.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const node = document.getElementById(id);
  if (node === null) throw new Error(`the page has no #${id}`);
  return node;
}

/**
 * A button with a text.
 * @param {string} text
 * @param {(event: Event) => void} onclick
 * @param {Attributes} [attributes]
 */
export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

/**
 * A button that copies what `text` gives at that time, and says so.
 * @param {string} label
 * @param {() => string} text
 */
export function copyButton(label, text) {
  const node = button(label, async () => {
    node.textContent = (await copy(text())) ? "Copied" : "Not copied";
    setTimeout(() => { node.textContent = label; }, 1500);
  }, { class: "quiet copy" });
  return node;
}

/**
 * Copies a text; pages without TLS have no clipboard of their own and use a selection.
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "off-screen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    return isDone;
  }
}

/**
 * Enter submits the form of a field, Shift + Enter begins a line.
 * @param {HTMLTextAreaElement} field
 */
export function submitOnEnter(field) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    field.form?.requestSubmit();
  });
}

/**
 * Calls `draw` once before the next paint, however often it is asked.
 * @param {() => void} draw
 * @returns {() => void}
 */
export function coalesced(draw) {
  let isPlanned = false;
  return () => {
    if (isPlanned) return;
    isPlanned = true;
    requestAnimationFrame(() => {
      isPlanned = false;
      draw();
    });
  };
}
