// The list of conversations, and the current one's name.

import { button, byId, el, WIDE } from "./dom.js";

export class Sidebar {
  /**
   * @param {import("./store.js").Conversations} conversations
   * @param {() => void} onOpen shows the current conversation
   * @param {() => void} onLeave ends what still comes in it
   */
  constructor(conversations, onOpen, onLeave) {
    this.conversations = conversations;
    this.onOpen = onOpen;
    this.onLeave = onLeave;
    this.list = byId("conversations");
    this.title = byId("title");
    byId("new").addEventListener("click", () => this.#change(() => conversations.begin()));
    this.title.addEventListener("change", () => {
      if (this.title.value.trim()) conversations.rename(this.title.value.trim());
      this.show();
    });
  }

  /** Shows the names. */
  show() {
    const { all, current } = this.conversations;
    this.title.value = current.title;
    this.list.replaceChildren(...all.map(({ id, title }) => el("li", { class: "row" },
      button(title, () => this.#change(() => this.conversations.open(id)), {
        class: "quiet name", "aria-current": id === current.id && "true",
      }),
      button("×", () => this.#remove(id, title), { class: "quiet", "aria-label": `Delete ${title}` }))));
  }

  /** @param {() => void} change */
  #change(change) {
    this.onLeave();
    change();
    this.onOpen();
    if (!matchMedia(WIDE).matches) document.body.classList.remove("has-list");
    byId("prompt").focus();
  }

  /** @param {string} id @param {string} title */
  #remove(id, title) {
    const dialog = el("dialog", { "aria-label": "Delete", onclose: () => dialog.remove() },
      el("p", {}, "Delete “", el("strong", {}, title), "”?"),
      el("div", { class: "row end" },
        button("Cancel", () => dialog.close(), { class: "quiet" }),
        button("Delete", () => {
          dialog.close();
          this.#change(() => this.conversations.remove(id));
        }, { class: "primary" })));
    document.body.append(dialog);
    dialog.showModal();
  }
}
