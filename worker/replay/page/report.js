"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const HEIGHT = 210, DOTS_MAX = 80, RIGHT = 12, TOP = 10, BOTTOM = 36;
  const COLOURS = ["var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)"];

  const node = (name, attributes, parent, text) => {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };

  // About four digits that matter.
  const number = (value) => {
    const size = Math.abs(value);
    if (size === 0) return "0";
    const digits = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(size))));
    return value.toLocaleString("en-US", {maximumFractionDigits: digits});
  };

  // Steps of 1, 2 or 5 times a power of ten.
  const ticks = (low, high, wanted) => {
    const rough = (high - low) / wanted || 1;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; ++n) found.push(n * step);
    return found;
  };

  const logTicks = (low, high, wanted) => {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
      for (const factor of [1, 2, 5]) found.push(factor * Math.pow(10, power));
    const inside = found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
    const decades = inside.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
    return inside.length <= wanted * 1.4 || decades.length < 2 ? inside : decades;
  };

  const TIME_UNITS = [["h", 3600000], ["min", 60000], ["s", 1000], ["ms", 1]];
  const timeUnit = (ms) => TIME_UNITS.find((unit) => ms >= 2 * unit[1]) || TIME_UNITS[3];

  const nearest = (positions, at) => {
    let best = 0;
    for (let i = 1; i < positions.length; ++i)
      if (Math.abs(positions[i] - at) < Math.abs(positions[best] - at)) best = i;
    return best;
  };

  // One plot: `x` positions, `curves` [{name, values}]. A line breaks where positions are further apart than `reach`;
  // few points get dots.
  class Plot {
    constructor(figure, spec) {
      this.spec = spec;
      this.figure = figure;
      this.legend = figure.querySelector(".legend");
      this.box = figure.querySelector(".plot");
      this.box.tabIndex = 0;
      this.index = null;
      this.box.addEventListener("pointermove", (event) => this.point(event));
      this.box.addEventListener("pointerdown", (event) => this.point(event));
      this.box.addEventListener("pointerleave", () => this.spec.select(null));
      this.box.addEventListener("blur", () => this.spec.select(null));
      this.box.addEventListener("keydown", (event) => this.key(event));
    }

    point(event) {
      const at = event.clientX - this.box.getBoundingClientRect().left;
      this.spec.select(this.spec.x[nearest(this.spec.x.map(this.toX), at)]);
    }

    key(event) {
      const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!step) return;
      event.preventDefault();
      const last = this.spec.x.length - 1;
      const index = this.index === null ? (step > 0 ? 0 : last) : Math.max(0, Math.min(last, this.index + step));
      this.spec.select(this.spec.x[index]);
    }

    draw() {
      const {x, curves, xName, xScale, yName, logX} = this.spec;
      this.width = Math.max(240, this.box.clientWidth);
      const right = this.width - RIGHT, bottom = HEIGHT - BOTTOM;
      const values = curves.flatMap((curve) => curve.values);
      const top = this.spec.yMax || Math.max(...values, 0) * 1.05 || 1;
      const [low, high] = this.spec.xRange;
      const heights = ticks(0, top, 4);
      const left = 28 + 6.5 * Math.max(...heights.map((value) => number(value).length));
      const place = logX ? (value) => (Math.log(value / low)) / (Math.log(high / low) || 1) : (value) => (value - low) / (high - low || 1);
      this.toX = (value) => left + place(value) * (right - left);
      this.toY = (value) => bottom - value / top * (bottom - TOP);
      const svg = node("svg", {viewBox: `0 0 ${this.width} ${HEIGHT}`, role: "img", "aria-label": this.spec.title});
      for (const value of heights) {
        node("line", {class: "grid", x1: left, x2: right, y1: this.toY(value), y2: this.toY(value)}, svg);
        node("text", {x: left - 6, y: this.toY(value) + 4, "text-anchor": "end"}, svg, number(value));
      }
      const wanted = Math.max(2, Math.floor((right - left) / 65));
      const marks = logX ? logTicks(low, high, wanted) : ticks(low / xScale, high / xScale, wanted).map((value) => value * xScale);
      for (const value of marks) {
        node("line", {class: "axis", x1: this.toX(value), x2: this.toX(value), y1: bottom, y2: bottom + 4}, svg);
        node("text", {x: this.toX(value), y: bottom + 16, "text-anchor": "middle"}, svg, number(value / xScale));
      }
      node("line", {class: "axis", x1: left, x2: right, y1: bottom, y2: bottom}, svg);
      node("text", {x: (left + right) / 2, y: HEIGHT - 4, "text-anchor": "middle"}, svg, xName);
      node("text", {x: -(TOP + bottom) / 2, y: 11, transform: "rotate(-90)", "text-anchor": "middle"}, svg, yName);
      curves.forEach((curve, n) => this.drawCurve(svg, x, curve.values, COLOURS[n]));
      this.cursor = node("g", {}, svg);
      this.box.replaceChildren(svg);
      this.show(this.index === null ? null : this.spec.x[this.index]);
    }

    drawCurve(svg, x, values, colour) {
      let path = "";
      values.forEach((value, i) => {
        const joined = i > 0 && x[i] - x[i - 1] <= this.spec.reach;
        path += `${joined ? "L" : "M"}${this.toX(x[i]).toFixed(1)} ${this.toY(value).toFixed(1)}`;
      });
      node("path", {class: "curve", d: path, style: `stroke:${colour}`}, svg);
      if (values.length <= DOTS_MAX) values.forEach((value, i) =>
        node("circle", {cx: this.toX(x[i]).toFixed(1), cy: this.toY(value).toFixed(1), r: 1.8, style: `fill:${colour}`}, svg));
    }

    // The cursor at the point nearest to a position, with its values; without a position, what the curves are.
    show(position) {
      const index = this.index = position === null ? null : nearest(this.spec.x, position);
      const {x, curves, unit, at} = this.spec;
      this.legend.replaceChildren();
      this.cursor.replaceChildren();
      curves.forEach((curve, n) => {
        const entry = document.createElement("span");
        entry.style.setProperty("--swatch", COLOURS[n]);
        entry.textContent = index === null ? curve.name : `${curve.name} ${number(curve.values[index])}${unit}`;
        this.legend.append(entry);
        if (index !== null)
          node("circle", {cx: this.toX(x[index]), cy: this.toY(curve.values[index]), r: 3.5, style: `fill:${COLOURS[n]}`}, this.cursor);
      });
      if (index === null) return;
      const where = document.createElement("span");
      where.className = "at";
      where.textContent = at(x[index]);
      this.legend.append(where);
      node("line", {class: "cursor", x1: this.toX(x[index]), x2: this.toX(x[index]), y1: TOP, y2: HEIGHT - BOTTOM}, this.cursor);
    }
  }

  const plots = [];
  const add = (id, spec) => {
    const figure = document.getElementById(id);
    plots.push(new Plot(figure, {...spec, title: figure.querySelector("figcaption").textContent}));
  };

  // Over time. Percentiles are shown as they came, one point per span that has a sample; what can be averaged is joined
  // to spans wide enough to tell something.
  const series = data.series, starts = series.start_ms, onTime = [];
  const widths = starts.map((start) => Math.max(1e-9, Math.min(series.bucket_ms, data.end_ms - start)));
  const wanted = Math.max(25, Math.min(300, data.requests / 2));
  const joined = Math.max(1, Math.ceil(starts.length / wanted));
  const end = Math.max(data.end_ms, series.bucket_ms);
  const [unitName, unitMs] = timeUnit(end);

  const sampled = (keys) => {
    const rows = starts.map((start, i) => i).filter((i) => keys.every((key) => series[key][i] !== null));
    return {x: rows.map((i) => starts[i] + widths[i] / 2), columns: keys.map((key) => rows.map((i) => series[key][i]))};
  };
  const mean = (values, weights) => {
    const known = values.map((value, i) => i).filter((i) => values[i] !== null && weights[i] > 0);
    const total = known.reduce((sum, i) => sum + weights[i], 0);
    return total > 0 ? known.reduce((sum, i) => sum + values[i] * weights[i], 0) / total : null;
  };
  const most = (values) => Math.max(...values);
  // Columns are [key, how to join, weights].
  const averaged = (columns) => {
    const x = [], made = columns.map(() => []);
    for (let from = 0; from < starts.length; from += joined) {
      const part = (values) => values.slice(from, from + joined);
      const row = columns.map(([key, join, weights]) => join(part(series[key]), part(weights || widths)));
      if (row.includes(null)) continue;
      const to = Math.min(from + joined, starts.length) - 1;
      x.push((starts[from] + starts[to] + widths[to]) / 2);
      row.forEach((value, n) => made[n].push(value));
    }
    return {x, columns: made};
  };

  const overTime = (id, yName, unit, names, {x, columns}, scale = 1, yMax) => {
    if (!x.length) return;
    add(id, {
      x, xRange: [0, end], xScale: unitMs, xName: `simulated time (${unitName})`, yName, unit, yMax,
      reach: Math.max(end * 0.03, series.bucket_ms * joined * 2),
      curves: names.map((name, n) => ({name, values: columns[n].map((value) => value * scale)})),
      at: (ms) => `at ${number(ms / unitMs)} ${unitName}`,
      select: (position) => onTime.forEach((plot) => plot.show(position)),
    });
    onTime.push(plots[plots.length - 1]);
  };
  if (starts.length) {
    overTime("ttft", "ms", " ms", ["p50", "p99"], sampled(["ttft_p50_ms", "ttft_p99_ms"]));
    overTime("itl", "ms", " ms", ["p50", "p99"], sampled(["itl_p50_ms", "itl_p99_ms"]));
    overTime("queue", "requests", "", ["running", "waiting", "waiting, peak"],
             averaged([["running_mean", mean], ["waiting_mean", mean], ["waiting_max", most]]));
    overTime("rate", "requests/s", "/s", ["arrived", "completed"], averaged([["arrivals_rps", mean], ["completed_rps", mean]]));
    overTime("output", "tokens/s", " tok/s", ["output"], averaged([["output_tok_s", mean]]));
    overTime("input", "tokens/s", " tok/s", ["admitted prompts"], averaged([["input_tok_s", mean]]));
    const prompts = series.input_tok_s.map((rate, i) => rate * widths[i]);
    overTime("cache", "% of prompt tokens", " %", ["found in cache"], averaged([["cache_hit_ratio", mean, prompts]]), 100, 100);
    overTime("blocks", "% of blocks", " %", ["in use"], averaged([["blocks_used_ratio", mean]]), 100);
    document.getElementById("spans").textContent = `Percentiles are of spans of ${number(series.bucket_ms)} ms, the other ` +
      `plots show means of ${number(series.bucket_ms * joined)} ms.`;
  }

  for (const id of ["ttft", "tpot", "e2e"]) {
    const points = data.curves[id];
    if (!points.length) continue;
    const values = points.map((point) => point[0]);
    const low = values[0], high = values[values.length - 1];
    const logX = low > 0 && high / low > 20;
    add(`${id}-curve`, {
      x: values, logX, xScale: 1, xName: logX ? "ms, logarithmic" : "ms", yName: "% of requests", unit: " %", yMax: 100,
      xRange: logX || high > low ? [low, high] : [low * 0.5, low * 1.5 || 1],
      curves: [{name: "share of requests", values: points.map((point) => point[1] * 100)}], reach: Infinity,
      at: (ms) => `at most ${number(ms)} ms`,
      select: (position) => plots.find((plot) => plot.figure.id === `${id}-curve`).show(position),
    });
  }

  const draw = () => plots.forEach((plot) => plot.draw());
  let width = 0;
  new ResizeObserver(() => {
    if (document.body.clientWidth !== width) { width = document.body.clientWidth; draw(); }
  }).observe(document.body);
})();
