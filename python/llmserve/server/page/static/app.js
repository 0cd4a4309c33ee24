// Starts the page: tabs, panels, models.

import { Chat } from "./chat.js";
import { byId, WIDE } from "./dom.js";
import { Live } from "./live.js";
import { ModelPicker } from "./models.js";
import { SettingsPanel } from "./settings.js";

const TABS = /** @type {const} */ (["chat", "live"]);

const live = new Live();
const picker = new ModelPicker();
const settings = new SettingsPanel(byId("settings"));
new Chat(picker, settings);

/** Shows the tab that the address names. */
function showTab() {
  const wanted = location.hash.slice(1);
  const shown = TABS.find((name) => name === wanted) ?? "chat";
  for (const name of TABS) {
    byId(name).hidden = name !== shown;
    const link = byId(`to-${name}`);
    if (name === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown === "live") live.start();
  else live.stop();
}

const wide = matchMedia(WIDE);
const panels = document.body.classList;

/**
 * A button that shows and hides a panel; on narrow screens it lies over the conversation.
 * @param {string} id
 * @param {string} name the class of the body while it is shown
 */
function bindPanel(id, name) {
  const toggle = byId(id);
  const panel = byId(toggle.getAttribute("aria-controls"));
  const show = () => toggle.setAttribute("aria-expanded", String(panels.contains(name)));
  const close = () => {
    if (!panels.contains(name)) return;
    panels.remove(name);
    toggle.focus();
  };
  toggle.addEventListener("click", () => {
    if (panels.toggle(name) && !wide.matches) panel.querySelector(".close").focus();
  });
  panel.querySelector(".close").addEventListener("click", close);
  panel.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || wide.matches) return;
    close();
    // It does not stop the answer, too.
    event.stopPropagation();
  });
  byId("shade").addEventListener("click", close);
  panels.toggle(name, wide.matches);
  new MutationObserver(show).observe(document.body, { attributeFilter: ["class"] });
  show();
}

addEventListener("hashchange", showTab);
showTab();
bindPanel("toggle-list", "has-list");
bindPanel("toggle-settings", "has-settings");
// Elsewhere, focus would open the keyboard on the screen.
if (wide.matches && !byId("chat").hidden) byId("prompt").focus();

picker.refresh().catch((error) => { byId("model-status").textContent = error.message; });
