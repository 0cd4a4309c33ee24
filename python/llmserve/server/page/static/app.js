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

/**
 * A button that shows and hides a panel; on narrow screens it lies over the conversation.
 * @param {string} id
 * @param {string} name the class of the body while it is shown
 */
function bindPanel(id, name) {
  const toggle = byId(id);
  const show = () => toggle.setAttribute("aria-expanded", String(document.body.classList.contains(name)));
  toggle.addEventListener("click", () => {
    document.body.classList.toggle(name);
    show();
  });
  new MutationObserver(show).observe(document.body, { attributeFilter: ["class"] });
  show();
}

addEventListener("hashchange", showTab);
showTab();
const isWide = matchMedia(WIDE).matches;
document.body.classList.toggle("has-list", isWide);
document.body.classList.toggle("has-settings", isWide);
bindPanel("toggle-list", "has-list");
bindPanel("toggle-settings", "has-settings");
byId("shade").addEventListener("click", () => document.body.classList.remove("has-list", "has-settings"));

picker.refresh().catch((error) => { byId("model-status").textContent = error.message; });
