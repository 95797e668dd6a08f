// Bars, lines, histograms and sparklines as SVG.

import { amount, cell, moment, percent, share, roundTicks, tickLabel } from "../shared/format";
import type { Curve, LinesBlock, SharesBlock } from "./data";
import { h, s, say } from "../shared/dom";
import { pictureButtons } from "../shared/picture";

/** One stacked bar a row: what each part is stands beside it in words as well. */
export function shares(block: SharesBlock): HTMLElement {
  const longest = Math.max(...block.whole, 1);
  const rows = block.labels.map((label, row) => {
    const whole = block.whole[row] ?? 0;
    const scale = block.same_scale ? longest : whole || 1;
    const values = block.parts.map((_, part) => block.values[part]?.[row] ?? 0);
    let at = 0;
    const bars = values.map((value, part) => {
      const width = (100 * value) / scale;
      const bar = s("rect", {
        x: `${at}%`, y: 0, width: `${width}%`, height: 18, class: `fill-${block.classes[part]}`,
      }, s("title", {}, `${block.parts[part]}: ${amount("ns", value)}, ${percent(value, whole)}`));
      at += width;
      return bar;
    });
    const words = block.parts.map((part, i) => `${part} ${percent(values[i]!, whole)}`).join(", ");
    const svg = s("svg", { class: "bar", height: 18, role: "img", "aria-label": `${label}: ${words}` }, ...bars);
    return h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "wide" }, svg),
      ...values.map((value) => h("td", { class: "number" },
        block.same_scale ? amount("ns", value) : percent(value, whole),
        block.same_scale ? null : h("small", {}, amount("ns", value)))),
      h("td", { class: "number" }, amount("ns", whole)));
  });
  const heads = block.parts.map((part, i) => h("th", { scope: "col", class: "number" },
    h("i", { class: `swatch fill-${block.classes[i]}` }), part));
  return h("section", { class: "shares" }, h("h3", {}, block.title),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": block.title },
      h("table", {}, h("thead", {}, h("tr", {}, h("td"), h("td", { class: "wide" }), ...heads,
        h("th", { scope: "col", class: "number" }, block.same_scale ? "step" : "window"))),
      h("tbody", {}, ...rows))));
}

const H = 150, LEFT = 74, BOTTOM = 20;

/** Units of a plot's width: its pixels on a phone, where 900 would make its text unreadable. */
function room(): number { return Math.max(320, Math.min(900, window.innerWidth - 40)); }

export function lines(block: LinesBlock, length: number): HTMLElement {
  const W = room();
  const all = block.series;
  const highest = Math.max(...all.map((x) => x.high.reduce((a, b) => Math.max(a, b), -Infinity)));
  const lowest = Math.min(0, ...all.map((x) => x.low.reduce((a, b) => Math.min(a, b), Infinity)));
  const top = highest > lowest ? highest : lowest + 1;
  const end = Math.max(length, ...all.map((x) => x.t[x.t.length - 1] ?? 0), 1);
  const x = (t: number) => LEFT + ((W - LEFT - 8) * t) / end;
  const y = (v: number) => 8 + ((H - BOTTOM - 8) * (top - v)) / (top - lowest);
  const parts: SVGElement[] = [];
  for (const v of [lowest, (lowest + top) / 2, top]) {
    parts.push(s("line", { x1: LEFT, x2: W - 8, y1: y(v), y2: y(v), class: "grid" }),
      s("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end" }, cell(block.unit, v)));
  }
  for (const t of roundTicks(end, W < 600 ? 3 : 6)) {
    const anchor = t === 0 ? "start" : x(t) > W - 40 ? "end" : "middle";
    parts.push(s("text", { x: x(t), y: H - 4, "text-anchor": anchor }, tickLabel(t)));
  }
  all.forEach((series, place) => {
    // A value holds until the next one: steps, since nothing was recorded in between.
    const steps = (values: number[]) => series.t.flatMap((t, i) => {
      const here = `${x(t).toFixed(1)},${y(values[i]!).toFixed(1)}`;
      const next = series.t[i + 1];
      return next === undefined ? [here] : [here, `${x(next).toFixed(1)},${y(values[i]!).toFixed(1)}`];
    });
    const up = steps(series.high), down = steps(series.low).reverse();
    parts.push(s("path", { d: `M${up.join("L")}L${down.join("L")}Z`, class: `area line-${place % 4}` }),
      s("path", { d: `M${up.join("L")}`, class: `line line-${place % 4}` }));
    // Through a single value goes no line.
    if (series.t.length === 1) parts.push(s("circle", { cx: x(series.t[0]!), cy: y(series.high[0]!), r: 3, class: `line line-${place % 4}` }));
  });
  const read = h("output", { class: "note" });
  const names = all.map((x) => x.label).join(" and ");
  const svg = s("svg", {
    viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img",
    "aria-label": `${block.title}: ${names} over time, ${cell(block.unit, lowest)} to ${cell(block.unit, highest)}`,
  }, ...parts);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const t = ((((event.clientX - box.left) * W) / box.width - LEFT) * end) / (W - LEFT - 8);
    read.textContent = all.map((series) => {
      let i = 0;
      while (i + 1 < series.t.length && series.t[i + 1]! <= t) i++;
      const low = cell(block.unit, series.low[i]!), high = cell(block.unit, series.high[i]!);
      return `${series.label} at ${moment(series.t[i]!)}: ${low === high ? low : `${low} to ${high}`}`;
    }).join(" · ");
  });
  const legend = all.length > 1
    ? h("p", { class: "note" }, ...all.map((series, i) => h("span", { class: "key" }, h("i", { class: `swatch line-${i % 4}` }), series.label)))
    : null;
  return h("section", { class: "lines" }, h("div", { class: "caption" }, h("h3", {}, block.title), pictureButtons(() => svg, () => block.title)), legend, svg,
    h("p", { class: "note" }, block.note), read);
}

/** Shares that come of settings: one small plot each, 0 to 100 %, with a disc where it is now. */
export function curves(block: { title: string; curves: Curve[] }): HTMLElement {
  const W = 360, left = 44;
  return h("section", { class: "curves" }, h("h3", {}, block.title), h("div", {}, ...block.curves.map((curve) => {
    const begin = curve.x[0] ?? 0;
    const x = (v: number) => left + ((W - left - 12) * (v - begin)) / Math.max(1, curve.end - begin);
    const y = (v: number) => 10 + (H - BOTTOM - 10) * (1 - v / 100);
    const steps = curve.x.flatMap((v, i) => {
      const next = curve.x[i + 1] ?? curve.end;
      return [`${x(v).toFixed(1)},${y(curve.y[i]!).toFixed(1)}`, `${x(next).toFixed(1)},${y(curve.y[i]!).toFixed(1)}`];
    });
    const [now, value] = curve.current;
    const svg = s("svg", {
      viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img",
      "aria-label": `${curve.label}: ${now.toLocaleString("en-US")} now, which gives ${share(value)}`,
    },
    ...[0, 50, 100].flatMap((v) => [s("line", { x1: left, x2: W - 12, y1: y(v), y2: y(v), class: "grid" }),
      s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, `${v} %`)]),
    ...[begin, curve.end].map((v, i) => s("text", { x: x(v), y: H - 4, "text-anchor": i ? "end" : "start" }, v.toLocaleString("en-US"))),
    s("path", { d: `M${steps.join("L")}`, class: "line line-0" }),
    s("circle", { cx: x(now), cy: y(value), r: 5, class: "fill-accent" }),
    s("text", { x: x(now) > W * 0.7 ? x(now) - 8 : x(now) + 8, y: value > 90 ? y(value) + 18 : y(value) - 7, "text-anchor": x(now) > W * 0.7 ? "end" : "start" },
      `${now.toLocaleString("en-US")} now: ${share(value)}`));
    return h("figure", {}, svg, h("figcaption", { class: "note" }, `${curve.label} `, pictureButtons(() => svg, () => `occupancy by ${curve.label}`)));
  })));
}

/** Where in the run something happens: a share per slice of it. */
export function sparkline(values: number[], label: string): SVGSVGElement {
  const high = Math.max(...values, 1e-9);
  return s("svg", { viewBox: `0 0 ${values.length} 20`, class: "spark", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("rect", { x: 0, y: 19.4, width: values.length, height: 0.6, class: "grid-fill" }),
    ...values.map((v, i) => s("rect", {
      x: i + 0.1, width: 0.8, y: 20 - Math.max(v > 0 ? 1.5 : 0, (20 * v) / high),
      height: Math.max(v > 0 ? 1.5 : 0, (20 * v) / high), class: "fill-accent",
    })));
}

/** How long the instances of one name took: equal steps of the logarithm. */
/** `W` is the width in pixels that it is drawn for. */
export function histogram(found: { low: number; high: number; bins: number[] }, title: string, W = 360): HTMLElement {
  const { low, high, bins: counts } = found;
  const bins = counts.length;
  const edge = (i: number) => low * (high / low) ** (i / bins);
  const most = Math.max(...counts);
  const width = (W - LEFT - 8) / bins;
  const bars = counts.map((n, i) => s("rect", {
    x: LEFT + i * width + 0.5, width: Math.max(1, width - 1),
    y: 8 + (H - BOTTOM - 8) * (1 - n / most), height: ((H - BOTTOM - 8) * n) / most, class: "fill-compute",
  }, s("title", {}, `${n.toLocaleString("en-US")} of ${amount("ns", edge(i))} to ${amount("ns", edge(i + 1))}`)));
  const ticks = (W < 600 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((share) => s("text", {
    x: LEFT + share * (W - LEFT - 8), y: H - 4,
    "text-anchor": share === 1 ? "end" : share ? "middle" : "start",
  }, amount("ns", Math.round(edge(share * bins)))));
  say(title);
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img", "aria-label": title },
    s("text", { x: LEFT - 6, y: 16, "text-anchor": "end" }, most.toLocaleString("en-US")),
    s("text", { x: LEFT - 6, y: H - BOTTOM, "text-anchor": "end" }, "0"), ...bars, ...ticks);
  return h("figure", {}, svg, h("figcaption", { class: "note" }, "Instances by duration, on a logarithmic axis. ", pictureButtons(() => svg, () => title)));
}
