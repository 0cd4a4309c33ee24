// Settings and messages as a request of `POST /v1/chat/completions`.

/** @typedef {import("./store.js").Message} Message */

/**
 * @typedef {object} Settings what the panel's fields contain, as texts; empty ones are not sent
 * @property {string} system
 * @property {string} temperature
 * @property {string} top_p
 * @property {string} top_k
 * @property {string} min_p
 * @property {string} max_tokens
 * @property {string} seed
 * @property {string} stop one string in each line
 * @property {string} session
 * @property {boolean} hasLogprobs
 * @property {string} top_logprobs
 * @property {boolean} isJson
 * @property {string} schema
 * @property {string} tools
 */

export const PATH = "v1/chat/completions";
export const NUMBERS = /** @type {const} */ (["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"]);

/** A field of the panel that is no JSON. */
export class SettingsError extends Error {}

/**
 * The body of the next turn.
 * @param {string} model
 * @param {Settings} settings
 * @param {Message[]} messages
 * @returns {Record<string, unknown>}
 * @throws {SettingsError}
 */
export function chatBody(model, settings, messages) {
  const system = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
  /** @type {Record<string, unknown>} */
  const body = { model, messages: [...system, ...messages.map(wireMessage)] };
  for (const name of NUMBERS) if (settings[name].trim()) body[name] = Number(settings[name]);
  const stop = settings.stop.split("\n").filter(Boolean);
  if (stop.length) body.stop = stop;
  if (settings.hasLogprobs) Object.assign(body, { logprobs: true, top_logprobs: Number(settings.top_logprobs || 5) });
  if (settings.isJson) body.response_format = responseFormat(settings.schema);
  if (settings.tools.trim()) body.tools = parsed(settings.tools, "Tools");
  return body;
}

/** @param {string} schema */
function responseFormat(schema) {
  if (!schema.trim()) return { type: "json_object" };
  return { type: "json_schema", json_schema: { name: "answer", schema: parsed(schema, "The JSON Schema") } };
}

/** @param {string} text @param {string} name */
function parsed(text, name) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SettingsError(`${name} could not be read: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * A message as the API has it.
 * @param {Message} message
 */
function wireMessage({ role, content, reasoning, toolCalls, toolCallId }) {
  /** @type {Record<string, unknown>} */
  const wire = { role, content };
  if (reasoning) wire.reasoning_content = reasoning;
  if (toolCalls?.length) {
    wire.content = content || null;
    wire.tool_calls = toolCalls.map((call) => (
      { id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
  }
  if (toolCallId) wire.tool_call_id = toolCallId;
  return wire;
}

/**
 * @param {string} session
 * @returns {Record<string, string>}
 */
export function sessionHeaders(session) {
  return session.trim() ? { "X-LLMServe-Session": session.trim() } : {};
}
