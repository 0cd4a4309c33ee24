// What the page remembers until its tab is closed: the API key.

const PREFIX = `llmserve:${new URL("./", document.baseURI).pathname}:`;

/** @type {Map<string, string>} */
const fallback = new Map();

/**
 * @param {string} name
 * @returns {string}
 */
export function remembered(name) {
  try {
    return sessionStorage.getItem(PREFIX + name) ?? "";
  } catch {
    return fallback.get(name) ?? "";
  }
}

/**
 * @param {string} name
 * @param {string} value
 */
export function remember(name, value) {
  try {
    sessionStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage is off: the value lasts as long as the page.
    fallback.set(name, value);
  }
}
