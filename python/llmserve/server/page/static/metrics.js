// Prometheus' text format, as `/metrics` has it.

/**
 * @typedef {{ labels: Record<string, string>, value: number }} Sample
 * @typedef {{ bounds: number[], counts: number[] }} Histogram each bucket's upper bound and its own count
 */

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** What one scrape says. */
export class Metrics {
  /** @param {string} text */
  constructor(text) {
    /** @type {Map<string, Sample[]>} */
    this.samples = new Map();
    this.atS = performance.now() / 1000;
    for (const line of text.split("\n")) {
      const match = SAMPLE.exec(line);
      if (match === null) continue;
      const [, name, labels = "", value] = match;
      const entries = [...labels.matchAll(LABEL)].map(([, label, raw]) => [label, unescaped(raw)]);
      const series = this.samples.get(name) ?? [];
      this.samples.set(name, series);
      series.push({ labels: Object.fromEntries(entries), value: Number(value.replace("Inf", "Infinity")) });
    }
  }

  /**
   * The samples of a metric, of one model or of all. One without a model is the server's total of the others.
   * @param {string} name
   * @param {string} model
   */
  of(name, model) {
    return (this.samples.get(name) ?? []).filter(({ labels }) => (model ? labels.model === model : labels.model));
  }

  /**
   * The sum of a metric's samples; `null` where there are none.
   * @param {string} name
   * @param {string} model
   * @returns {number | null}
   */
  sum(name, model) {
    const samples = this.of(name, model);
    return samples.length ? samples.reduce((sum, { value }) => sum + value, 0) : null;
  }

  /**
   * A histogram, added up over models; `null` where there is none.
   * @param {string} name
   * @param {string} model
   * @returns {Histogram | null}
   */
  histogram(name, model) {
    /** @type {Map<number, number>} */
    const upTo = new Map();
    for (const { labels, value } of this.of(`${name}_bucket`, model)) {
      const bound = Number(labels.le.replace("+Inf", "Infinity"));
      upTo.set(bound, (upTo.get(bound) ?? 0) + value);
    }
    if (upTo.size === 0) return null;
    const bounds = [...upTo.keys()].sort((a, b) => a - b);
    const totals = bounds.map((bound) => upTo.get(bound) ?? 0);
    return { bounds, counts: totals.map((total, index) => total - (totals[index - 1] ?? 0)) };
  }
}

/** @param {string} text */
function unescaped(text) {
  return text.replace(/\\(.)/g, (_, character) => (character === "n" ? "\n" : character));
}

/**
 * What came between two states of a histogram.
 * @param {Histogram} now
 * @param {Histogram | null} before
 * @returns {Histogram}
 */
export function since(now, before) {
  if (before === null || before.bounds.length !== now.bounds.length) return now;
  const counts = now.counts.map((count, index) => count - before.counts[index]);
  // A model that was unloaded took its counts with it.
  return counts.some((count) => count < 0) ? now : { bounds: now.bounds, counts };
}

/**
 * An estimate of a quantile, linear within its bucket; `null` of nothing.
 * @param {Histogram} histogram
 * @param {number} share
 */
export function quantile({ bounds, counts }, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let rest = share * total;
  for (const [index, count] of counts.entries()) {
    const low = bounds[index - 1] ?? 0;
    if (count > 0 && rest <= count) return Number.isFinite(bounds[index]) ? low + (bounds[index] - low) * (rest / count) : low;
    rest -= count;
  }
  return bounds.at(-2) ?? null;
}
