// Server-sent events of an answer, as they come (WHATWG HTML, "Server-sent events").

/**
 * @typedef {{ event: string, data: string }} ServerEvent
 */

/**
 * The texts of an answer's body, as they come.
 * @param {Response} response
 * @returns {AsyncGenerator<string>}
 */
export async function* texts(response) {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    // Whoever stops reading ends the request.
    reader.cancel().catch(() => {});
  }
}

/**
 * The events of an answer; comments are left out.
 * @param {Response} response
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* events(response) {
  let rest = "";
  for await (const text of texts(response)) {
    const frames = (rest + text).split(/\r?\n\r?\n/);
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      const event = parse(frame);
      if (event !== null) yield event;
    }
  }
}

/**
 * @param {string} frame
 * @returns {ServerEvent | null}
 */
function parse(frame) {
  let event = "message";
  const data = [];
  for (const line of frame.split(/\r?\n/)) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
  return data.length ? { event, data: data.join("\n") } : null;
}
