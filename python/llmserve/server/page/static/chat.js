// The conversation: sending, stopping, editing, answering again.

import { isAbort } from "./api.js";
import { byId, coalesced, submitOnEnter } from "./dom.js";
import { MessageView } from "./message.js";
import { chatBody, sessionHeaders } from "./request.js";
import { Sidebar } from "./sidebar.js";
import { showSnippets } from "./snippets.js";
import { Conversations } from "./store.js";
import { streamTurn } from "./turn.js";

/** @typedef {import("./store.js").Message} Message */

const NEAR_END_PX = 80;

export class Chat {
  /**
   * @param {import("./models.js").ModelPicker} picker
   * @param {import("./settings.js").SettingsPanel} settings
   */
  constructor(picker, settings) {
    this.picker = picker;
    this.settings = settings;
    this.conversations = new Conversations();
    /** @type {AbortController | null} */
    this.running = null;
    /** @type {MessageView[]} */
    this.views = [];
    this.thread = byId("thread");
    this.input = byId("prompt");
    this.sendButton = byId("send");
    this.sidebar = new Sidebar(this.conversations, () => this.#show(), () => this.stop());
    this.#listen();
    this.#show();
  }

  #listen() {
    byId("composer").addEventListener("submit", (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      // Enter has no submitter: it sends, and only the button stops.
      if (!this.running) this.#sendInput();
      else if (event.submitter) this.stop();
    });
    submitOnEnter(this.input);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.stop();
    });
    byId("as-code").addEventListener("click", () => this.#showCode());
  }

  get #messages() {
    return this.conversations.current.messages;
  }

  /** Shows the current conversation. */
  #show() {
    this.views = [];
    this.thread.replaceChildren();
    for (const message of this.#messages) this.#add(message);
    this.#showEmptiness(this.#messages.length === 0);
    this.sidebar.show();
    this.#scroll(true);
  }

  /** @param {boolean} isEmpty */
  #showEmptiness(isEmpty) {
    byId("empty").hidden = !isEmpty;
    byId("heading").hidden = isEmpty;
  }

  /** @param {Message} message */
  #add(message) {
    const view = new MessageView(message, {
      onEdit: (edited, text) => this.#edit(edited, text),
      onRegenerate: (answer) => this.#regenerate(answer),
      onToolResult: (toolCallId, content) => {
        this.#send({ role: "tool", content, toolCallId });
        this.sendButton.focus();
      },
    });
    this.views.push(view);
    this.thread.append(view.node);
    this.#showEmptiness(false);
    return view;
  }

  #sendInput() {
    const content = this.input.value;
    if (!content.trim()) return;
    this.input.value = "";
    this.#send({ role: "user", content });
  }

  /** @param {Message} message */
  #send(message) {
    if (this.running) return;
    // An answer that failed before it began is shown last, and belongs to no conversation.
    this.#cut(this.#messages.length);
    this.#messages.push(message);
    this.#add(message);
    this.conversations.save();
    this.sidebar.show();
    this.#answer();
  }

  /** @param {MessageView} view @param {string} text */
  #edit(view, text) {
    if (this.running) return;
    this.#cut(this.views.indexOf(view));
    this.#send({ role: "user", content: text });
    this.sendButton.focus();
  }

  /** @param {MessageView} view */
  #regenerate(view) {
    if (this.running) return;
    this.#cut(this.views.indexOf(view));
    this.#answer();
    this.sendButton.focus();
  }

  /** Drops the messages from an index on. @param {number} index */
  #cut(index) {
    this.#messages.length = index;
    for (const view of this.views.splice(index)) view.node.remove();
  }

  /** Ends the answer that is coming. */
  stop() {
    if (this.running === null) return;
    this.running.abort();
    this.picker.cancel();
  }

  /** Adds the assistant's next turn. */
  async #answer() {
    const { values } = this.settings;
    const { conversations } = this;
    const conversation = conversations.current;
    /** @type {Message} */
    const message = { role: "assistant", content: "", isJson: values.isJson };
    const before = [...this.#messages];
    const view = this.#add(message);
    const running = this.#begin(view);
    const draw = coalesced(() => {
      const isAtEnd = this.#isAtEnd;
      view.update();
      if (isAtEnd) this.#scroll(false);
    });
    try {
      await this.picker.load();
      const body = chatBody(this.picker.id, values, before);
      const options = { headers: sessionHeaders(values.session), signal: running.signal, onChange: draw };
      running.signal.throwIfAborted();
      await streamTurn(message, body, options);
    } catch (error) {
      if (isAbort(error)) message.finish = "stopped";
      else message.problem = /** @type {Error} */ (error).message;
    }
    if (message.content || message.reasoning || message.toolCalls) conversation.messages.push(message);
    this.#end(view);
    if (conversations.current === conversation) conversations.save();
    this.sidebar.show();
  }

  /** @param {MessageView} view */
  #begin(view) {
    const running = new AbortController();
    this.running = running;
    view.begin();
    this.sendButton.textContent = "Stop";
    this.#announce("The answer is being generated.");
    this.#scroll(true);
    return running;
  }

  /** @param {MessageView} view */
  #end(view) {
    const isAtEnd = this.#isAtEnd;
    this.running = null;
    view.settle();
    this.sendButton.textContent = "Send";
    this.#announce(view.message.problem ?? (view.message.finish === "stopped" ? "Stopped." : "The answer is complete."));
    if (isAtEnd) this.#scroll(false);
  }

  #showCode() {
    const { values } = this.settings;
    byId("code-problem").textContent = "";
    try {
      const draft = this.input.value.trim() ? [{ role: /** @type {const} */ ("user"), content: this.input.value }] : [];
      showSnippets(chatBody(this.picker.id, values, [...this.#messages, ...draft]), sessionHeaders(values.session));
    } catch (error) {
      byId("code-problem").textContent = /** @type {Error} */ (error).message;
    }
  }

  /** Says to screen readers what others see. @param {string} text */
  #announce(text) {
    byId("announcement").textContent = text;
  }

  get #scroller() {
    return /** @type {HTMLElement} */ (this.thread.parentElement);
  }

  get #isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  /** @param {boolean} isSmooth */
  #scroll(isSmooth) {
    const behavior = isSmooth && !matchMedia("(prefers-reduced-motion: reduce)").matches ? "smooth" : "instant";
    this.#scroller.scrollTo({ top: this.#scroller.scrollHeight, behavior });
  }
}
