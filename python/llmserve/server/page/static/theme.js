"use strict";

// Runs before the first paint, hence no module: light, dark, or as the system has it.
(() => {
  const NAMES = ["system", "light", "dark"];
  const KEY = "llmserve:theme";

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  }

  let current = NAMES.includes(stored()) ? stored() : "system";

  function apply() {
    document.documentElement.dataset.theme = current;
    const button = document.getElementById("theme");
    if (button) button.setAttribute("aria-label", `Theme: ${current}`);
    document.dispatchEvent(new Event("themechange"));
  }

  apply();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      current = NAMES[(NAMES.indexOf(current) + 1) % NAMES.length];
      try {
        localStorage.setItem(KEY, current);
      } catch {
        // Storage is off: the choice lasts as long as the page.
      }
      apply();
    });
  });
})();
