// The text that the events of a stream carry, in all dialects of the server.

/**
 * The text of a stream so far, for reading instead of its events.
 * @param {string} raw
 */
export function textOf(raw) {
  let text = "";
  for (const line of raw.split("\n")) {
    if (!line.startsWith("data: {")) continue;
    try {
      text += piece(JSON.parse(line.slice(6)));
    } catch {
      // The last line is not complete yet.
    }
  }
  return text;
}

/**
 * @param {any} event
 * @returns {string}
 */
function piece(event) {
  const [choice] = event.choices ?? [];
  if (choice) return (choice.delta?.reasoning_content ?? "") + (choice.delta?.content ?? choice.text ?? "");
  if (event.type) return event.type.endsWith(".delta") ? event.delta : "";
  if (event.event) return event.event === "delta" ? event.text : "";
  return event.message ?? event.text_delta ?? event.content ?? "";
}
