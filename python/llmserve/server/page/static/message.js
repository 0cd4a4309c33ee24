// One message of a conversation, and how it is changed.

import { button, copyButton, el, submitOnEnter } from "./dom.js";
import { layOut, showJson } from "./json-view.js";
import { showMarkdown } from "./markdown.js";
import { showTokens } from "./tokens.js";

/** @typedef {import("./store.js").Message} Message */

/**
 * @typedef {object} MessageActions
 * @property {(view: MessageView, text: string) => void} onEdit
 * @property {(view: MessageView) => void} onRegenerate
 * @property {(callId: string, result: string) => void} onToolResult
 */

const NAMES = { user: "You", assistant: "Assistant", tool: "Tool result" };
const NOTES = {
  length: "The token limit ended this answer.",
  stopped: "Stopped.",
};

/** Shows a message; `update` shows what has changed in it. */
export class MessageView {
  /**
   * @param {Message} message
   * @param {MessageActions} actions
   */
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.areTokensShown = true;
    this.content = el("div", { class: "content" });
    this.reasoning = el("div", { class: "content" });
    this.thoughts = el("details", { class: "thoughts", hidden: true }, el("summary", {}, "Reasoning"), this.reasoning);
    this.calls = el("div", { class: "calls" });
    this.notes = el("p", { class: "notes muted" });
    this.bar = el("div", { class: "bar-actions" });
    const footer = el("footer", {}, this.notes, this.bar);
    this.node = el("article", { class: `message ${message.role}`, "aria-label": NAMES[message.role] },
      el("h2", {}, NAMES[message.role]), this.thoughts, this.content, this.calls, footer);
    this.update();
    this.settle();
  }

  /** Marks the message as one that is still coming. */
  begin() {
    this.node.setAttribute("aria-busy", "true");
    this.bar.replaceChildren();
  }

  /** Shows what can be done with a message that is complete. */
  settle() {
    const { message } = this;
    this.node.removeAttribute("aria-busy");
    const tools = [copyButton("Copy", () => message.content)];
    if (message.role === "user") tools.push(button("Edit", () => this.#edit(), { class: "quiet edit-message" }));
    if (message.role === "assistant") {
      tools.push(button("Regenerate", () => this.actions.onRegenerate(this), { class: "quiet regenerate" }));
      if (message.tokens?.length) tools.push(this.#tokenSwitch());
    }
    this.bar.replaceChildren(...tools);
    this.update();
  }

  /** Shows the message as it is now. */
  update() {
    const { message } = this;
    this.#showContent();
    this.thoughts.hidden = !message.reasoning;
    if (message.reasoning) showMarkdown(this.reasoning, message.reasoning);
    this.#showCalls();
    const note = message.problem ?? NOTES[/** @type {keyof NOTES} */ (message.finish)] ?? "";
    this.notes.classList.toggle("problem", message.problem !== undefined);
    this.notes.textContent = [note, message.summary].filter(Boolean).join(" ");
  }

  #showContent() {
    const { content, isJson, tokens, role } = this.message;
    if (tokens?.length && this.areTokensShown) showTokens(this.content, tokens);
    else if (isJson) showJson(this.content, content);
    else if (role === "assistant") showMarkdown(this.content, content);
    else this.content.textContent = content;
  }

  #tokenSwitch() {
    const toggle = button("Tokens", () => {
      this.areTokensShown = !this.areTokensShown;
      toggle.setAttribute("aria-pressed", String(this.areTokensShown));
      this.content.replaceChildren();
      this.#showContent();
    }, { class: "quiet", "aria-pressed": String(this.areTokensShown) });
    return toggle;
  }

  #showCalls() {
    const { toolCalls = [] } = this.message;
    const isBusy = this.node.getAttribute("aria-busy") === "true";
    // A result that is being written must not be lost.
    if (this.calls.contains(document.activeElement)) return;
    this.calls.replaceChildren(...toolCalls.map((call) => el("section", { class: "call", "aria-label": `Call of ${call.name}` },
      el("h3", {}, el("code", {}, call.name)),
      el("pre", { tabindex: "0" }, layOut(call.arguments).map(({ text }) => text).join("")),
      !isBusy && this.#resultForm(call.id))));
  }

  /** @param {string} callId */
  #resultForm(callId) {
    const input = el("input", { placeholder: "What the tool returned", "aria-label": "Result of the call" });
    const onsubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      input.blur();
      this.actions.onToolResult(callId, input.value);
    };
    return el("form", { class: "row", onsubmit }, input, el("button", { type: "submit" }, "Send result"));
  }

  #edit() {
    const input = el("textarea", { "aria-label": "Message" });
    input.value = this.message.content;
    submitOnEnter(input);
    const onsubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (input.value.trim()) this.actions.onEdit(this, input.value);
    };
    const cancel = () => {
      this.settle();
      this.bar.querySelector(".edit-message")?.focus();
    };
    const onkeydown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      cancel();
    };
    const form = el("form", { class: "edit", onsubmit, onkeydown }, input, el("div", { class: "row end" },
      button("Cancel", cancel, { class: "quiet" }), el("button", { type: "submit", class: "primary" }, "Send again")));
    this.content.replaceChildren(form);
    this.bar.replaceChildren();
    input.focus();
  }
}
