// One turn of the assistant, as its stream comes.

import { request } from "./api.js";
import { PATH } from "./request.js";
import { events } from "./sse.js";

/** @typedef {import("./store.js").Message} Message */

/**
 * Streams a turn into a message; `onChange` is called after each change.
 * @param {Message} message
 * @param {Record<string, unknown>} body
 * @param {{ headers: Record<string, string>, signal: AbortSignal, onChange: () => void }} options
 * @throws {ApiError}
 */
export async function streamTurn(message, body, { headers, signal, onChange }) {
  const json = { ...body, stream: true, stream_options: { include_usage: true } };
  const response = await request(PATH, { json, headers, signal });
  let isDone = false;
  for await (const { data } of events(response)) {
    if (data === "[DONE]") {
      isDone = true;
      continue;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message ?? chunk.error);
    applyChunk(message, chunk);
    onChange();
  }
  if (!isDone) throw new Error("The connection was lost before the answer was complete.");
}

/**
 * @param {Message} message
 * @param {any} chunk
 */
function applyChunk(message, chunk) {
  const [choice] = chunk.choices;
  if (choice) {
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta;
    if (content) message.content += content;
    if (reasoning) message.reasoning = (message.reasoning ?? "") + reasoning;
    for (const call of calls ?? []) addCall(message, call);
    for (const entry of choice.logprobs?.content ?? []) (message.tokens ??= []).push(shownToken(entry));
    if (choice.finish_reason) message.finish = choice.finish_reason;
  }
  if (chunk.timings) message.summary = summaryOf(chunk.timings);
}

/**
 * @param {Message} message
 * @param {any} call
 */
function addCall(message, call) {
  const calls = (message.toolCalls ??= []);
  const known = (calls[call.index] ??= { id: "", name: "", arguments: "" });
  known.id ||= call.id ?? "";
  known.name ||= call.function?.name ?? "";
  known.arguments += call.function?.arguments ?? "";
}

/** @param {any} entry */
function shownToken({ token, logprob, bytes, top_logprobs: top }) {
  // The token that ends the text is no part of it.
  return { text: token, logprob, isEnd: bytes.length === 0, top: top.map((/** @type {any} */ other) => ({ text: other.token, logprob: other.logprob })) };
}

/** @param {any} timings llama-server's */
function summaryOf({ prompt_n: computed, cache_n: cached, predicted_n: drawn, predicted_per_second: speed, draft_n: drafted, draft_n_accepted: accepted }) {
  const parts = [`${computed + cached} tokens in`, `${drawn} out`];
  if (cached) parts[0] += ` (${cached} cached)`;
  if (speed > 0 && Number.isFinite(speed)) parts.push(`${speed.toFixed(1)} tokens/s`);
  if (drafted) parts.push(`${accepted} of ${drafted} drafts accepted`);
  return parts.join(" · ");
}
