// Plots of what the server does now, from its metrics.

import { isAbort, request, send } from "./api.js";
import { byId, el } from "./dom.js";
import { Metrics, quantile, since } from "./metrics.js";
import { BarPlot, LinePlot } from "./plots.js";

const PERIOD_MS = 1000;
const NUM_SCRAPES = 121;

/**
 * @typedef {(now: Metrics, before: Metrics, model: string) => number | null} Reading
 *
 * @typedef {object} LineSpec
 * @property {string} title
 * @property {{ label: string, read: Reading }[]} series the plot is hidden while none has a value
 * @property {Reading} [limit]
 * @property {(value: number) => string} show
 */

const DRAFTED = "llmserve_draft_tokens_total";
const ACCEPTED = "llmserve_accepted_tokens_total";

/** What a counter grew by in a second. @param {string} name @returns {Reading} */
const rate = (name) => (now, before, model) => {
  const [later, earlier] = [now.sum(name, model), before.sum(name, model)];
  if (later === null || earlier === null || now.atS <= before.atS) return null;
  // A model that was unloaded took its counts with it.
  return Math.max(0, later - earlier) / (now.atS - before.atS);
};

/** @param {string} name @returns {Reading} */
const gauge = (name) => (now, _, model) => now.sum(name, model);

/** @param {string} part @param {string} whole @returns {Reading} */
const share = (part, whole) => (now, _, model) => {
  const [used, all] = [now.sum(part, model), now.sum(whole, model)];
  return used === null || !all ? null : used / all;
};

/** The share of the drafts of this second that were accepted. @type {Reading} */
const acceptance = (now, before, model) => {
  const drafted = rate(DRAFTED)(now, before, model);
  return drafted ? (rate(ACCEPTED)(now, before, model) ?? 0) / drafted : null;
};

const whole = (/** @type {number} */ value) => (value >= 10 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1));
const percent = (/** @type {number} */ value) => `${(value * 100).toFixed(0)} %`;
const seconds = (/** @type {number} */ value) => {
  if (value >= 1) return `${whole(value)} s`;
  return value >= 0.01 ? `${(value * 1000).toFixed(0)} ms` : `${Number((value * 1000).toPrecision(2))} ms`;
};

/** @type {LineSpec[]} */
const LINES = [
  {
    title: "Tokens a second",
    series: [
      { label: "generated", read: rate("llmserve_completion_tokens_total") },
      { label: "prompt", read: rate("llmserve_prompt_tokens_total") },
    ],
    show: whole,
  },
  {
    title: "Batch",
    series: [{ label: "running", read: gauge("llmserve_requests_running") }, { label: "slots", read: gauge("llmserve_slots") }],
    limit: gauge("llmserve_slots"),
    show: whole,
  },
  {
    title: "Queue",
    series: [
      { label: "waiting", read: gauge("llmserve_requests_waiting") },
      { label: "preparing", read: gauge("llmserve_requests_preparing") },
    ],
    show: whole,
  },
  {
    title: "KV cells in use",
    series: [{ label: "used", read: share("llmserve_kv_cells_used", "llmserve_kv_cells") }],
    limit: () => 1,
    show: percent,
  },
  {
    title: "Draft acceptance",
    series: [{ label: "now", read: acceptance }, { label: "in all", read: share(ACCEPTED, DRAFTED) }],
    limit: () => 1,
    show: percent,
  },
];

const HISTOGRAMS = [
  { title: "Time to first token", name: "llmserve_time_to_first_token_seconds" },
  { title: "Gap between tokens", name: "llmserve_inter_token_latency_seconds" },
  { title: "Time in the queue", name: "llmserve_queue_time_seconds" },
];

export class Live {
  constructor() {
    /** @type {Metrics[]} */
    this.scrapes = [];
    this.select = byId("live-model");
    this.select.addEventListener("change", () => this.#draw());
    this.lines = LINES.map((spec) => ({ spec, plot: new LinePlot(spec.title) }));
    this.bars = HISTOGRAMS.map((spec) => ({ spec, plot: new BarPlot(spec.title) }));
    byId("plots").append(...[...this.lines, ...this.bars].map(({ plot }) => plot.node));
    document.addEventListener("themechange", () => this.#draw());
    addEventListener("resize", () => this.#draw());
    /** @type {AbortController | null} */
    this.polling = null;
  }

  /** Polls while the tab is shown. */
  start() {
    if (this.polling) return;
    this.polling = new AbortController();
    this.#poll(this.polling.signal);
  }

  stop() {
    this.polling?.abort();
    this.polling = null;
  }

  /** @param {AbortSignal} signal */
  async #poll(signal) {
    while (!signal.aborted) {
      if (!document.hidden) await this.#scrape(signal);
      await new Promise((resolve) => { setTimeout(resolve, PERIOD_MS); });
    }
  }

  /** @param {AbortSignal} signal */
  async #scrape(signal) {
    try {
      const [metrics, health] = await Promise.all([request("metrics", { signal }), send("health", { signal })]);
      this.scrapes = [...this.scrapes, new Metrics(await metrics.text())].slice(-NUM_SCRAPES);
      this.#showHealth(await health.json());
      this.#draw();
    } catch (error) {
      if (!isAbort(error)) byId("live-status").textContent = `The server does not answer: ${/** @type {Error} */ (error).message}`;
    }
  }

  /** @param {{ status: string, models: { id: string, state: string, backend?: string }[] }} health */
  #showHealth({ status, models }) {
    byId("live-status").textContent = models.length ? "" : "No model is loaded yet.";
    byId("server-state").textContent = status;
    byId("server-state").dataset.state = status;
    byId("live-models").replaceChildren(...models.map(({ id, state, backend }) => el("li", {},
      el("span", { class: "state", "data-state": state }, state), id, backend && el("span", { class: "muted" }, backend))));
    const chosen = this.select.value;
    this.select.replaceChildren(el("option", { value: "" }, "All models"), ...models.map(({ id }) => el("option", { value: id }, id)));
    this.select.value = models.some(({ id }) => id === chosen) ? chosen : "";
  }

  #draw() {
    const { scrapes } = this;
    const now = scrapes.at(-1);
    if (!now || !byId("plots").clientWidth) return;
    const model = this.select.value;
    for (const { spec, plot } of this.lines) {
      const series = spec.series.map(({ label, read }, order) => ({
        label, colour: `--series-${order + 1}`,
        values: scrapes.map((scrape, index) => read(scrape, scrapes[index - 1] ?? scrape, model)),
      }));
      plot.node.hidden = series.every(({ values }) => values.every((value) => value === null));
      const limit = spec.limit?.(now, now, model) || null;
      if (!plot.node.hidden) plot.draw(series, { length: NUM_SCRAPES, limit, show: spec.show, note: "2 minutes ago" });
    }
    for (const { spec, plot } of this.bars) {
      const all = now.histogram(spec.name, model);
      plot.node.hidden = all === null;
      if (all) this.#drawHistogram(plot, since(all, scrapes[0].histogram(spec.name, model)), all);
    }
  }

  /**
   * Shows the last minutes; if nothing happened there, all that the server knows.
   * @param {BarPlot} plot
   * @param {import("./metrics.js").Histogram} recent
   * @param {import("./metrics.js").Histogram} all
   */
  #drawHistogram(plot, recent, all) {
    const shown = recent.counts.some((count) => count > 0) ? recent : all;
    const entries = [0.5, 0.95].map((part) => {
      const value = quantile(shown, part);
      return { label: `p${part * 100}`, text: value === null ? "–" : seconds(value) };
    });
    const isEmpty = shown.counts.every((count) => count === 0);
    plot.draw(shown, entries, { show: seconds, note: isEmpty ? "nothing yet" : shown === recent ? "last minutes" : "since the start" });
  }
}
