// One frame of the timeline on its canvas.

import { amount } from "../../shared/format";
import type { LinesBlock } from "../data";
import type { Layout, Row } from "./layout";
import { COLUMN, type Ev, type Model } from "./model";
import type { Theme } from "./theme";

export const RULER = 24;
export const STRIP = 12;
export const TOP = RULER + STRIP;

export interface Scene {
  from: number; to: number; scroll: number;
  width: number; height: number; gutter: number;
  selected: Ev | null; linked: Ev[]; hover: Ev | null;
  range: [number, number] | null;
  evidence: [number, number][];
  marks: { ranges: [number, number][] }[];
  found: Uint8Array | null;
}

/** Paints, and returns how many events and marks it drew. */
export function paint(c: CanvasRenderingContext2D, model: Model, layout: Layout, t: Theme, v: Scene): { single: number; several: number } {
  const drawn = { single: 0, several: 0 };
  const perPixel = (v.to - v.from) / Math.max(1, v.width - v.gutter);
  const x = (moment: number) => v.gutter + (moment - v.from) / perPixel;
  c.fillStyle = t.ground;
  c.fillRect(0, 0, v.width, v.height);
  c.textBaseline = "middle";
  c.save();
  c.beginPath();
  c.rect(0, TOP, v.width, v.height - TOP);
  c.clip();
  grid(c, t, v, perPixel, x);
  const seen = layout.rows.filter((row) => layout.seen(row, v.scroll, v.height - TOP));
  const place = (row: Row) => TOP + layout.toView(row.y, v.scroll);
  // What scrolls first; then what stays, on ground of its own.
  const parts = [seen.filter((row) => row.y >= layout.pinned), seen.filter((row) => row.y < layout.pinned)];
  parts.forEach((rows, stays) => {
    if (stays && layout.pinned) {
      c.fillStyle = t.ground;
      c.fillRect(0, TOP, v.width, layout.pinned);
      grid(c, t, v, perPixel, x, layout.pinned);
    }
    const texts: { x: number; y: number; text: string }[] = [];
    for (const row of rows) {
      if (row.kind === "lane") lane(c, model, t, v, row, place(row), perPixel, x, texts, drawn);
      else if (row.kind === "counter") counter(c, t, row.counter, place(row), row.h, x);
    }
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = t.ink;
    for (const { x: left, y, text } of texts) c.fillText(text, left, y);
    c.fillStyle = t.ground;
    c.fillRect(0, stays ? TOP : TOP + layout.pinned, v.gutter, stays ? layout.pinned : v.height - TOP);
    for (const row of rows) label(c, model, t, v, row, place(row));
  });
  if (layout.pinned && v.scroll > 0) {
    c.fillStyle = t.soft;
    c.fillRect(0, TOP + layout.pinned - 1, v.width, 1);
  }
  overlays(c, model, layout, t, v, x);
  c.restore();
  head(c, t, v, perPixel, x);
  return drawn;
}

function lane(
  c: CanvasRenderingContext2D, model: Model, t: Theme, v: Scene, row: Extract<Row, { kind: "lane" }>, y: number,
  perPixel: number, x: (n: number) => number, texts: { x: number; y: number; text: string }[],
  drawn: { single: number; several: number },
): void {
  const height = row.h - 2;
  const column = COLUMN * perPixel;
  let color = "", alpha = 1;
  // Neighbouring marks of equal looks become one rectangle.
  let left = -1, right = -1;
  const flush = () => {
    if (right > left) c.fillRect(left, y, right - left, height);
    left = right = -1;
  };
  const look = (fill: string, a: number) => {
    if (fill === color && a === alpha) return;
    flush();
    color = fill;
    alpha = a;
    c.fillStyle = fill;
    c.globalAlpha = a;
  };
  const lane = model.lanes[row.lane]!;
  c.globalAlpha = 1;
  model.visit(lane, v.from, v.to, perPixel, (i) => {
    const merged = model.count !== undefined && model.count[i]! > 1;
    if (merged) drawn.several++;
    else drawn.single++;
    const a = Math.max(v.gutter - 1, x(model.start[i]!)), b = Math.min(v.width + 1, x(model.end[i]!));
    const wide = Math.max(1, b - a);
    // Of a mark of several only the first name is known, so it is never dimmed.
    const dim = v.found && !v.found[model.name[i]!] && !merged;
    look(v.found && v.found[model.name[i]!] ? t.found : t.fill[model.cls[i]!] ?? t.fill[9]!, dim ? 0.25 : 1);
    flush();
    c.fillRect(a, y, wide > 3 ? wide - 0.7 : wide, height);
    if (wide > 34 && !dim) {
      const room = Math.floor((wide - 8) / 6.1);
      const full = merged ? `${model.count![i]!.toLocaleString("en-US")} events` : model.label(i);
      const text = full.length <= room ? full : room > 3 ? `${full.slice(0, room - 1)}…` : "";
      if (text) texts.push({ x: a + 4, y: y + height / 2 + 0.5, text });
    }
  }, (first, last) => {
    drawn.several++;
    const a = x(Math.floor(model.start[first]! / column) * column);
    let hit = !v.found;
    for (let i = first; v.found && !hit && i < last && i < first + 400; i++) hit = v.found[model.name[i]!] === 1;
    const share = Math.min(1, model.time(first, last) / column);
    look(v.found && hit ? t.found : t.fill[model.cls[first]!] ?? t.fill[9]!, hit ? 0.45 + 0.11 * Math.round(share * 5) : 0.2);
    if (left < 0 || a > right + 0.6) { flush(); left = a; }
    right = a + COLUMN;
  });
  flush();
  c.globalAlpha = 1;
}

function counter(
  c: CanvasRenderingContext2D, t: Theme, block: LinesBlock, y: number, h: number, x: (n: number) => number,
): void {
  const series = block.series[0]!;
  let high = -Infinity, low = 0;
  for (const value of series.high) high = Math.max(high, value);
  for (const value of series.low) low = Math.min(low, value);
  const scale = (h - 6) / (high > low ? high - low : 1);
  c.beginPath();
  c.moveTo(x(series.t[0]!), y + h - 2);
  series.t.forEach((moment, i) => {
    c.lineTo(x(moment), y + h - 2 - (series.high[i]! - low) * scale);
    const next = series.t[i + 1];
    if (next !== undefined) c.lineTo(x(next), y + h - 2 - (series.high[i]! - low) * scale);
  });
  c.lineTo(x(series.t[series.t.length - 1]!), y + h - 2);
  c.globalAlpha = 0.55;
  c.fillStyle = t.fill[0]!;
  c.fill();
  c.globalAlpha = 1;
  c.strokeStyle = t.soft;
  c.lineWidth = 0.7;
  c.stroke();
}

function label(c: CanvasRenderingContext2D, model: Model, t: Theme, v: Scene, row: Row, y: number): void {
  const fit = (text: string, size: number) => {
    const room = Math.floor((v.gutter - 14) / size);
    return text.length <= room ? text : `${text.slice(0, Math.max(1, room - 1))}…`;
  };
  if (row.kind === "group") {
    c.fillStyle = t.band;
    c.fillRect(0, y, v.width, row.h);
    c.font = "600 12px system-ui, sans-serif";
    c.fillStyle = t.ink;
    c.fillText(`${row.open ? "▾" : "▸"} ${row.group}`, 8, y + row.h / 2 + 1);
    return;
  }
  c.font = "11px system-ui, sans-serif";
  c.fillStyle = t.soft;
  if (row.kind === "counter") c.fillText(fit(row.counter.title, 5.9), 10, y + row.h / 2);
  else if (row.first) {
    const more = row.hidden ? ` +${row.hidden} rows` : "";
    c.fillText(fit(model.block.tracks[row.track]!.label + more, 5.9), 10, y + row.h / 2);
  }
}

/** A round step of time that leaves room for its label. */
export function stepOf(perPixel: number): number {
  const least = perPixel * 90;
  const power = 10 ** Math.floor(Math.log10(least));
  return Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) ?? least);
}

function ticks(v: Scene, perPixel: number): number[] {
  const step = stepOf(perPixel);
  const found: number[] = [];
  for (let m = Math.ceil(v.from / step) * step; m <= v.to && found.length < 500; m += step) found.push(m);
  return found;
}

function grid(c: CanvasRenderingContext2D, t: Theme, v: Scene, perPixel: number, x: (n: number) => number, height = v.height - TOP): void {
  c.fillStyle = t.line;
  for (const moment of ticks(v, perPixel)) c.fillRect(Math.round(x(moment)), TOP, 0.5, height);
}

function overlays(c: CanvasRenderingContext2D, model: Model, layout: Layout, t: Theme, v: Scene, x: (n: number) => number): void {
  c.save();
  c.beginPath();
  c.rect(v.gutter, TOP, v.width - v.gutter, v.height - TOP);
  c.clip();
  c.fillStyle = t.accent;
  for (const [a, b] of v.evidence) {
    if (b < v.from || a > v.to) continue;
    c.globalAlpha = 0.13;
    c.fillRect(x(a), TOP, Math.max(1, x(b) - x(a)), v.height);
    c.globalAlpha = 0.8;
    c.fillRect(x(a), TOP, 1, v.height);
    c.fillRect(x(b), TOP, 1, v.height);
  }
  c.globalAlpha = 1;
  if (v.range) {
    const [a, b] = v.range;
    c.fillStyle = t.select;
    c.globalAlpha = 0.16;
    c.fillRect(x(a), TOP, Math.max(1, x(b) - x(a)), v.height);
    c.globalAlpha = 1;
  }
  const box = (event: Ev, color: string, line: number) => {
    const own = layout.laneY[event.lane]!;
    if (own < 0 || !layout.seen({ y: own, h: 0 }, v.scroll, v.height - TOP)) return;
    const y = layout.toView(own, v.scroll);
    const h = model.block.tracks[model.lanes[event.lane]!.track]!.kind === "thread" ? 13 : 16;
    c.strokeStyle = color;
    c.lineWidth = line;
    const a = x(event.start), b = Math.max(a + 2, x(event.end));
    c.strokeRect(Math.max(v.gutter - 9, a) - 0.5, TOP + y - 0.5, Math.min(v.width + 20, b) - Math.max(v.gutter - 9, a) + 0.5, h + 1);
  };
  if (v.hover) box(v.hover, t.soft, 1);
  if (v.selected) {
    for (const other of v.linked) {
      arrow(c, layout, t, v, x, v.selected, other);
      box(other, t.accent, 1.5);
    }
    box(v.selected, t.ink, 2);
  }
  c.restore();
}

/** From the launching call to what it launched. */
function arrow(
  c: CanvasRenderingContext2D, layout: Layout, t: Theme, v: Scene, x: (n: number) => number, one: Ev, two: Ev,
): void {
  const [call, work] = one.cls < 3 ? [two, one] : [one, two];
  const ya = layout.laneY[call.lane]!, yb = layout.laneY[work.lane]!;
  if (ya < 0 || yb < 0) return;
  const a = x(call.end), b = x(work.start);
  const from = TOP + layout.toView(ya, v.scroll) + 7, to = TOP + layout.toView(yb, v.scroll) + 8;
  const bend = Math.max(20, Math.min(120, Math.abs(b - a) / 2));
  c.strokeStyle = c.fillStyle = t.accent;
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(a, from);
  c.bezierCurveTo(a + bend, from, b - bend, to, b - 5, to);
  c.stroke();
  c.beginPath();
  c.moveTo(b, to);
  c.lineTo(b - 7, to - 4);
  c.lineTo(b - 7, to + 4);
  c.fill();
}

function head(c: CanvasRenderingContext2D, t: Theme, v: Scene, perPixel: number, x: (n: number) => number): void {
  c.fillStyle = t.ground;
  c.fillRect(0, 0, v.width, TOP);
  c.fillStyle = t.line;
  c.fillRect(0, TOP - 1, v.width, 1);
  c.font = "11px system-ui, sans-serif";
  const step = stepOf(perPixel);
  for (const moment of ticks(v, perPixel)) {
    const left = x(moment);
    if (left < v.gutter - 1) continue;
    c.fillStyle = t.line;
    c.fillRect(Math.round(left), 14, 1, RULER - 14);
    c.fillStyle = t.soft;
    c.fillText(tick(moment, step), left + 4, 11);
  }
  c.fillStyle = t.soft;
  c.fillText(v.gutter > 120 ? `${amount("ns", v.to - v.from)} shown` : amount("ns", v.to - v.from), 8, 11);
  if (v.marks.length) c.fillText("findings", 8, RULER + 4);
  v.marks.forEach((mark) => {
    let last = -Infinity;
    c.fillStyle = t.accent;
    for (const [a, b] of mark.ranges) {
      const left = Math.max(v.gutter, x(a)), right = Math.min(v.width, Math.max(x(b), x(a) + 3));
      if (right <= v.gutter || left >= v.width || right - last < 1) continue;
      c.globalAlpha = 0.75;
      c.fillRect(left, RULER + 2, right - left, STRIP - 5);
      last = right;
    }
    c.globalAlpha = 1;
  });
}

/** A moment as short as the step between ticks allows. */
function tick(moment: number, step: number): string {
  const [unit, scale] = moment >= 1e9 ? ["s", 1e9] : moment >= 1e6 ? ["ms", 1e6] : moment >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  const decimals = Math.max(0, Math.ceil(Math.log10((scale as number) / step) - 1e-9));
  return `${(moment / (scale as number)).toFixed(Math.min(9, decimals))} ${unit}`;
}
