// Plots on canvas, in the page's colours.

import { el } from "./dom.js";

const HEIGHT_PX = 120;
const MARGIN = { top: 8, right: 4, bottom: 4, left: 4 };
const LABELS_PX = 14;

/**
 * @typedef {{ label: string, colour: string, values: (number | null)[] }} Series `colour` is a property of the style
 */

/** A plot's frame: title, legend with the present values, canvas. */
class Plot {
  /** @param {string} title */
  constructor(title) {
    this.title = title;
    this.legend = el("dl", { class: "legend" });
    this.canvas = el("canvas", { role: "img", height: HEIGHT_PX });
    this.node = el("figure", { class: "plot" }, el("figcaption", {}, el("h3", {}, title), this.legend), this.canvas);
  }

  /** @param {{ label: string, text: string, colour?: string }[]} entries */
  explain(entries) {
    this.legend.replaceChildren(...entries.map(({ label, text, colour }) => {
      const mark = colour && el("span", { class: "mark" });
      if (mark) mark.style.background = `var(${colour})`;
      return el("div", {}, el("dt", {}, mark || null, label), el("dd", {}, text));
    }));
    this.canvas.setAttribute("aria-label", `${this.title}: ${entries.map(({ label, text }) => `${label} ${text}`).join(", ")}`);
  }

  /** The canvas at the screen's resolution, empty. */
  begin() {
    const { canvas } = this;
    const scale = devicePixelRatio;
    const width = canvas.clientWidth;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(HEIGHT_PX * scale);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(scale, scale);
    // A canvas takes no `var()`; the computed colour is that of the theme.
    const colour = (/** @type {string} */ name) => {
      canvas.style.color = `var(${name})`;
      return getComputedStyle(canvas).color;
    };
    const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT_PX - MARGIN.bottom };
    return { context, box, colour };
  }
}

/** Lines over time, the newest at the right. */
export class LinePlot extends Plot {
  /**
   * @param {Series[]} series
   * @param {{ length: number, limit: number | null, show: (value: number) => string, note: string }} options `length`: values from
   *   edge to edge; `limit`: the top of the plot, if it is known; `note`: when the left edge was
   */
  draw(series, { length, limit, show, note }) {
    const latest = (/** @type {Series} */ { values }) => values.at(-1) ?? null;
    this.explain(series.map((one) => {
      const value = latest(one);
      return { label: one.label, text: value === null ? "–" : show(value), colour: one.colour };
    }));
    const { context, box: whole, colour } = this.begin();
    const box = { ...whole, bottom: whole.bottom - LABELS_PX };
    const highest = Math.max(...series.flatMap(({ values }) => values.map((value) => value ?? 0)), 0);
    const top = limit ?? niceAbove(highest);
    this.#grid(context, box, colour, show(top));
    write(context, colour, note, whole.left, whole.bottom, "left");
    write(context, colour, "now", whole.right, whole.bottom, "right");
    const x = (/** @type {number} */ index, /** @type {number} */ count) => box.right - ((count - 1 - index) / (length - 1)) * (box.right - box.left);
    const y = (/** @type {number} */ value) => box.bottom - (Math.min(value, top) / top) * (box.bottom - box.top);
    series.forEach(({ values, colour: name }, order) => {
      context.strokeStyle = context.fillStyle = colour(name);
      for (const run of runsOf(values)) {
        context.beginPath();
        run.forEach(({ index, value }) => context.lineTo(x(index, values.length), y(value)));
        context.lineWidth = 1.75;
        context.lineJoin = "round";
        context.stroke();
        if (order > 0) continue;
        context.lineTo(x(run[run.length - 1].index, values.length), box.bottom);
        context.lineTo(x(run[0].index, values.length), box.bottom);
        context.globalAlpha = 0.12;
        context.fill();
        context.globalAlpha = 1;
      }
    });
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {{ left: number, right: number, top: number, bottom: number }} box
   * @param {(name: string) => string} colour
   * @param {string} label
   */
  #grid(context, box, colour, label) {
    context.strokeStyle = colour("--line");
    context.lineWidth = 1;
    for (const share of [0, 0.5, 1]) {
      const y = Math.round(box.top + share * (box.bottom - box.top)) + 0.5;
      context.beginPath();
      context.moveTo(box.left, y);
      context.lineTo(box.right, y);
      context.stroke();
    }
    write(context, colour, label, box.left, box.top + 11, "left");
  }
}

/** The buckets of a histogram as bars. */
export class BarPlot extends Plot {
  /**
   * @param {import("./metrics.js").Histogram} histogram
   * @param {{ label: string, text: string }[]} entries
   * @param {{ show: (bound: number) => string, note: string }} options `note`: of which time the histogram is
   */
  draw({ bounds, counts }, entries, { show, note }) {
    this.explain(entries);
    const { context, box, colour } = this.begin();
    const highest = Math.max(...counts, 1);
    const bottom = box.bottom - LABELS_PX;
    const step = (box.right - box.left) / counts.length;
    context.fillStyle = colour("--series-1");
    counts.forEach((count, index) => {
      const height = count === 0 ? 0 : Math.max(2, (count / highest) * (bottom - box.top));
      context.fillRect(box.left + index * step + 1, bottom - height, Math.max(1, step - 2), height);
    });
    context.strokeStyle = colour("--line");
    context.beginPath();
    context.moveTo(box.left, bottom + 0.5);
    context.lineTo(box.right, bottom + 0.5);
    context.stroke();
    write(context, colour, note, box.left, box.top + 4, "left");
    const finite = bounds.filter(Number.isFinite);
    const middle = Math.floor(finite.length / 2);
    write(context, colour, show(finite[0]), box.left, box.bottom, "left");
    write(context, colour, show(finite[middle]), box.left + (middle + 1) * step, box.bottom, "center");
    write(context, colour, `> ${show(finite[finite.length - 1])}`, box.right, box.bottom, "right");
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {(name: string) => string} colour
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {CanvasTextAlign} align
 */
function write(context, colour, text, x, y, align) {
  context.fillStyle = colour("--muted");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = align;
  context.fillText(text, x, y);
}

/**
 * Stretches without gaps.
 * @param {(number | null)[]} values
 */
function runsOf(values) {
  /** @type {{ index: number, value: number }[][]} */
  const runs = [];
  values.forEach((value, index) => {
    if (value === null) return;
    if (index === 0 || values[index - 1] === null) runs.push([]);
    runs[runs.length - 1].push({ index, value });
  });
  return runs;
}

/** The next of 1, 2, 5, 10, 20, … @param {number} value */
function niceAbove(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((nice) => nice >= value) ?? 10 * power;
}
