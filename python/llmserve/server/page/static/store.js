// What the browser keeps between visits: settings and conversations.

const PREFIX = `llmserve:${new URL("./", document.baseURI).pathname}:`;

/**
 * @typedef {object} TopToken
 * @property {string} text
 * @property {number} logprob
 *
 * @typedef {TopToken & { isEnd: boolean, top: TopToken[] }} ShownToken
 *
 * @typedef {object} ToolCall
 * @property {string} id
 * @property {string} name
 * @property {string} arguments
 *
 * @typedef {object} Message
 * @property {"user" | "assistant" | "tool"} role
 * @property {string} content
 * @property {string} [reasoning]
 * @property {ToolCall[]} [toolCalls]
 * @property {string} [toolCallId] the call that a tool's message answers
 * @property {boolean} [isJson] whether the content is a document
 * @property {ShownToken[]} [tokens] not kept
 * @property {string} [finish]
 * @property {string} [summary] counts and speed
 * @property {string} [problem] why it ended early
 *
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title
 * @property {boolean} isNamed whether the user gave the title
 * @property {number} changedAt
 * @property {Message[]} messages
 */

/**
 * @template T
 * @param {string} name
 * @param {T} fallback
 * @returns {T}
 */
export function load(name, fallback) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}

/**
 * Keeps a value; says whether the browser had room for it.
 * @param {string} name
 * @param {unknown} value
 */
export function save(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

const UNTITLED = "New conversation";

/** The conversations of this browser, the latest first. */
export class Conversations {
  constructor() {
    /** @type {Conversation[]} */
    this.all = load("conversations", []);
    /** @type {Conversation} */
    this.current = this.all[0] ?? this.#made();
  }

  /** Begins a conversation, unless the current one is still empty. */
  begin() {
    if (this.current.messages.length) this.current = this.#made();
  }

  /** @returns {Conversation} */
  #made() {
    return { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), title: UNTITLED, isNamed: false, changedAt: 0, messages: [] };
  }

  /** @param {string} id */
  open(id) {
    this.current = this.all.find((conversation) => conversation.id === id) ?? this.current;
  }

  /** @param {string} title */
  rename(title) {
    this.current.title = title;
    this.current.isNamed = true;
    this.save();
  }

  /** @param {string} id */
  remove(id) {
    this.all = this.all.filter((conversation) => conversation.id !== id);
    if (this.current.id === id) this.current = this.all[0] ?? this.#made();
    this.#write();
  }

  /** Keeps the current conversation, in front of the others. */
  save() {
    const { current } = this;
    if (!current.isNamed) {
      const [first] = current.messages;
      current.title = first ? first.content.trim().split("\n")[0].slice(0, 60) || UNTITLED : UNTITLED;
    }
    current.changedAt = Date.now();
    this.all = [current, ...this.all.filter((conversation) => conversation !== current)];
    this.#write();
  }

  /** Without the tokens, which are large; the oldest conversations make room. */
  #write() {
    let kept = this.all.map((conversation) => ({
      ...conversation, messages: conversation.messages.map((message) => ({ ...message, tokens: undefined })),
    }));
    while (!save("conversations", kept) && kept.length > 1) kept = kept.slice(0, -1);
  }
}
