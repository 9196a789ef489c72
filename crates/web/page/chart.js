// Charts over time by uPlot, and curves as SVG.
import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import { bytes, percent, rate, seconds, blocks } from "./format.js";

const HEIGHT = 170;

const UNITS = { bytes_per_second: rate, bytes, seconds, ratio: percent };

/// How a series' values are written: by the last words of its name.
function writer(name) {
  const unit = Object.keys(UNITS).find((known) => name.endsWith(known));
  return UNITS[unit] || String;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/// Steps of an axis of bytes.
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
/// Lines of an axis of times.
const TIMES = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000];

/// The y axis of a unit: times are logarithmic, since a slow read takes a thousand times as long as a fast one.
function scaleOf(name) {
  if (name.endsWith("p99_seconds")) {
    const range = (_, low, high) => [10 ** Math.floor(Math.log10(low || 1e-6)), 10 ** Math.ceil(Math.log10((high || 1e-3) * 1.01))];
    return [{ distr: 3, range }, { splits: (chart) => TIMES.filter((time) => time >= chart.scales.y.min * 0.99 && time <= chart.scales.y.max * 1.01) }];
  }
  const top = name.endsWith("ratio") ? (high) => Math.max(1, high) : (high) => (high > 0 ? high * 1.1 : 1);
  return [{ range: (_, low, high) => [0, top(high || 0)] }, name.includes("bytes") ? { incrs: BYTE_STEPS } : {}];
}

/// The time of day; seconds only where points are close together.
const clock = (splits) => {
  const is_close = splits.length > 1 && splits[1] - splits[0] < 60;
  return splits.map((at) => new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: is_close ? "2-digit" : undefined, hour12: false }));
};

function options(lines, width) {
  const write = writer(lines[0][1]);
  const line = { stroke: colour("--faint"), width: 1 };
  const axis = { stroke: colour("--soft"), grid: line, ticks: line, font: "12px system-ui, sans-serif" };
  const [scale, of_unit] = scaleOf(lines[0][1]);
  return {
    width,
    height: HEIGHT,
    cursor: { y: false, points: { size: 6 } },
    legend: { live: true, markers: { width: 0, fill: (_, at) => (at > 0 ? colour(`--c${at - 1}`) : "transparent") } },
    scales: { x: { time: true }, y: scale },
    axes: [
      { ...axis, size: 30, space: 90, values: (_, splits) => clock(splits) },
      { ...axis, size: 76, ...of_unit, values: (_, splits) => splits.map((value) => (value === null ? "" : value === 0 ? "0" : write(value))) },
    ],
    series: [
      { label: "at", value: (_, at) => (at ? new Date(at * 1000).toLocaleTimeString() : "–") },
      ...lines.map(([label, name], at) => ({
        label,
        stroke: colour(`--c${at}`),
        width: 2,
        points: { size: 4 },
        value: (_, value) => writer(name)(value),
      })),
    ],
  };
}

/// A chart of series of a history: each a label and a name.
export function Chart({ title, note, history, lines }) {
  const place = useRef(null);
  const drawn = useRef(null);
  const at = history ? history.at_seconds : [];
  useEffect(() => {
    const element = place.current;
    if (!element || at.length === 0) return undefined;
    const values = lines.map(([, name]) => history.series.find((one) => one.name === name).values);
    const data = [at, ...values];
    if (drawn.current) {
      drawn.current.setData(data);
      return undefined;
    }
    drawn.current = new uPlot(options(lines, element.clientWidth), data, element);
    return undefined;
  }, [history]);
  useEffect(() => {
    const redraw = () => {
      const chart = drawn.current;
      if (!chart) return;
      const { data } = chart;
      chart.destroy();
      drawn.current = new uPlot(options(lines, place.current.clientWidth), data, place.current);
    };
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", redraw);
    const resize = new ResizeObserver(() => {
      const chart = drawn.current;
      if (chart && place.current.clientWidth > 0) chart.setSize({ width: place.current.clientWidth, height: HEIGHT });
    });
    resize.observe(place.current);
    return () => {
      dark.removeEventListener("change", redraw);
      resize.disconnect();
      if (drawn.current) drawn.current.destroy();
      drawn.current = null;
    };
  }, []);
  const step = history ? seconds(history.step_seconds) : "30 s";
  return html`<section class="panel"><h2>${title}</h2>${note && html`<p class="note">${note}</p>`}
    <div class="chart" data-test="chart" data-points=${at.length} ref=${place}></div>
    ${at.length === 0 && html`<p class="nothing">The first point comes ${step} after the daemon's start.</p>`}</section>`;
}

const [WIDTH, TALL, LEFT, BOTTOM] = [560, 210, 46, 26];

/// A live miss-ratio curve: hit ratio of reads by size, with marks at some sizes.
export function Curve({ points, marks }) {
  if (points.length < 2) return html`<p class="nothing">Too little was read yet to draw a curve.</p>`;
  const widest = Math.max(...points.map((point) => point.size_blocks), ...marks.map(([, size]) => size), 1);
  const x = (size) => LEFT + ((WIDTH - LEFT - 12) * size) / widest;
  const y = (ratio) => 10 + (TALL - BOTTOM - 10) * (1 - ratio);
  const path = points.map((point) => `${x(point.size_blocks).toFixed(1)},${y(point.read_hit_ratio).toFixed(1)}`).join(" ");
  return html`<svg class="curve" data-test="curve" viewBox="0 0 ${WIDTH} ${TALL}" role="img" aria-label="Hit ratio of reads by size of the share">
    ${[0, 0.25, 0.5, 0.75, 1].map((ratio) => html`<g><line class="grid" x1=${LEFT} x2=${WIDTH - 12} y1=${y(ratio)} y2=${y(ratio)} />
      <text class="tick" x=${LEFT - 6} y=${y(ratio) + 4} text-anchor="end">${percent(ratio)}</text></g>`)}
    ${[0, 0.5, 1].map((part) => html`<text class="tick" x=${x(part * widest)} y=${TALL - 8} text-anchor=${part === 0 ? "start" : part === 1 ? "end" : "middle"}>${part === 0 ? "0" : blocks(part * widest)}</text>`)}
    <polyline class="line c0" points=${path} />
    ${marks.map(([name, size], at) => html`<g class="c${at + 1}"><line class="mark" x1=${x(size)} x2=${x(size)} y1="10" y2=${TALL - BOTTOM} />
      <text class="name" x=${x(size) + (x(size) > WIDTH - 120 ? -5 : 5)} y=${22 + 15 * at} text-anchor=${x(size) > WIDTH - 120 ? "end" : "start"}>${name} ${blocks(size)}</text></g>`)}
  </svg>`;
}

/// Two distributions of times beside each other, from 1 µs to 10 s on a logarithmic axis: each a name and buckets.
export function Times({ distributions }) {
  const known = distributions.filter(([, of]) => of.count > 0);
  if (known.length === 0) return html`<p class="nothing">Nothing was timed yet.</p>`;
  const x = (time) => LEFT + ((WIDTH - LEFT - 12) * (Math.log10(Math.min(Math.max(time, 1e-6), 10)) + 6)) / 7;
  const y = (part) => 10 + (TALL - BOTTOM - 10) * (1 - part);
  const lines = known.map(([name, of]) => {
    let below = 0;
    const steps = of.buckets.map((bucket) => {
      below += bucket.count;
      return `${x(bucket.to_seconds).toFixed(1)},${y(below / of.count).toFixed(1)}`;
    });
    const first = x(of.buckets[0].to_seconds).toFixed(1);
    return [name, [`${LEFT},${y(0)}`, `${first},${y(0)}`, ...steps, `${WIDTH - 12},${y(1)}`].join(" "), of];
  });
  return html`<svg class="curve" viewBox="0 0 ${WIDTH} ${TALL}" role="img" aria-label="Part of the requests that took at most so long">
    ${[0, 0.5, 0.99].map((part) => html`<g><line class="grid" x1=${LEFT} x2=${WIDTH - 12} y1=${y(part)} y2=${y(part)} />
      <text class="tick" x=${LEFT - 6} y=${y(part) + 4} text-anchor="end">${percent(part)}</text></g>`)}
    ${[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10].map((time) => html`<text class="tick" x=${x(time)} y=${TALL - 8} text-anchor=${time === 10 ? "end" : "middle"}>${seconds(time).replace(".0", "")}</text>`)}
    ${lines.map(([, path], at) => html`<polyline class="line c${at}" points=${path} />`)}</svg>
    <ul class="legend">${lines.map(([name, , of], at) => html`<li><svg viewBox="0 0 10 10"><rect class="c${at}" width="10" height="10" rx="2" /></svg><span>${name}</span>
      <span class="soft">half within</span> <b>${seconds(of.p50_seconds)}</b> <span class="soft">99 % within</span> <b>${seconds(of.p99_seconds)}</b></li>`)}</ul>`;
}
