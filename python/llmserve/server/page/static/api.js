// Requests to this server, with the key that the page has asked for.

import { askForKey } from "./key-dialog.js";
import { remember, remembered } from "./session.js";

/** Where the server begins: the page may lie below a prefix. */
export const BASE = new URL("./", document.baseURI);

/** A refusal, in the server's words. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string | null} code
   * @param {number | null} retryAfterS
   */
  constructor(status, message, code, retryAfterS) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.retryAfterS = retryAfterS;
  }
}

/**
 * @typedef {object} Call
 * @property {string} [method]
 * @property {unknown} [json] a body
 * @property {string} [text] a body as it is
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 */

/**
 * The server's answer, whatever its status.
 * @param {string} path relative to the server's root
 * @param {Call} [call]
 * @returns {Promise<Response>}
 */
export function send(path, call = {}) {
  const headers = new Headers(call.headers);
  const key = remembered("key");
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const body = call.json === undefined ? call.text : JSON.stringify(call.json);
  if (body !== undefined) headers.set("Content-Type", "application/json");
  const method = call.method ?? (body === undefined ? "GET" : "POST");
  return fetch(new URL(path.replace(/^\//, ""), BASE), { method, headers, body, signal: call.signal });
}

/**
 * The server's answer, if it is not a refusal. Where a key is needed, the user is asked for it.
 * @param {string} path
 * @param {Call} [call]
 * @returns {Promise<Response>}
 * @throws {ApiError}
 */
export async function request(path, call = {}) {
  for (;;) {
    const sent = remembered("key");
    const response = await send(path, call);
    if (response.ok) return response;
    const error = await refusal(response);
    if (response.status !== 401) throw error;
    // Another request may have got a key in the meantime.
    if (remembered("key") !== sent) continue;
    const key = await askForKey(sent ? "The server did not accept this key." : "");
    if (key === null) throw error;
    remember("key", key);
  }
}

/**
 * The JSON of an answer.
 * @param {string} path
 * @param {Call} [call]
 * @returns {Promise<any>}
 */
export async function requestJson(path, call = {}) {
  return (await request(path, call)).json();
}

/** @param {Response} response */
async function refusal(response) {
  const text = await response.text();
  const seconds = response.headers.get("Retry-After");
  let message = `${response.status} ${response.statusText}`;
  let code = null;
  try {
    const { error } = JSON.parse(text);
    message = typeof error === "string" ? error : error.message;
    code = error.code ?? null;
  } catch {
    // A proxy's answer, not the server's.
  }
  return new ApiError(response.status, message, code, seconds === null ? null : Number(seconds));
}

/**
 * Whether an exception only says that the user ended a request.
 * @param {unknown} error
 */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}
