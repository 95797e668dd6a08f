// One frame of the timeline on its canvas.

import { amount, cell } from "../../shared/format";
import type { LinesBlock } from "../data";
import type { Layout, Row } from "./layout";
import { fillOf, LAST_OF_DEVICE, looksOf, OTHER } from "./looks";
import { COLUMN, type Ev, type Model } from "./model";
import { type Walk, mergePlaces, mergePlacesByRank } from "./places";
import type { Theme } from "./theme";

export const RULER = 24;
export const STRIP = 12;
export const TOP = RULER + STRIP;

export interface Scene {
  from: number; to: number; scroll: number;
  width: number; height: number; gutter: number;
  selected: Ev | null; linked: Ev[]; hover: Ev | null;
  range: [number, number] | null;
  /** What is walked through, and at which place; its events where it is the critical path. */
  walk: Walk | null; place: number; path: Ev[] | null;
  evidence: [number, number][];
  walks: Walk[];
  /** The row whose label the pointer is over. */
  label: Row | undefined;
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
      else if (row.kind === "counter") counter(c, t, v, row.counter, place(row), row.h, x);
    }
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = t.ink;
    for (const { x: left, y, text } of texts) c.fillText(text, left, y);
    c.fillStyle = t.ground;
    c.fillRect(0, stays ? TOP : TOP + layout.pinned, v.gutter, stays ? layout.pinned : v.height - TOP);
    for (const row of rows) label(c, layout, t, v, row, place(row));
  });
  if (layout.pinned && v.scroll > 0) {
    c.fillStyle = t.soft;
    c.fillRect(0, TOP + layout.pinned - 1, v.width, 1);
  }
  if (v.path && v.walk) criticalPath(c, model, layout, t, v, x);
  overlays(c, model, layout, t, v, perPixel, x);
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
  const looks = looksOf(model.block.names);
  const hue = (i: number) => t.fill[fillOf(looks, model.cls[i]!, model.name[i]!)] ?? t.fill[OTHER]!;
  c.globalAlpha = 1;
  model.visit(lane, v.from, v.to, perPixel, (i) => {
    const merged = model.count !== undefined && model.count[i]! > 1;
    if (merged) drawn.several++;
    else drawn.single++;
    const a = Math.max(v.gutter - 1, x(model.start[i]!)), b = Math.min(v.width + 1, x(model.end[i]!));
    const wide = Math.max(1, b - a);
    // Of a mark of several only the first name is known, so it is never dimmed.
    const dim = v.found && !v.found[model.name[i]!] && !merged;
    look(v.found && v.found[model.name[i]!] ? t.found : hue(i), dim ? 0.25 : 1);
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
    look(v.found && hit ? t.found : hue(first), hit ? 0.45 + 0.11 * Math.round(share * 5) : 0.2);
    if (left < 0 || a > right + 0.6) { flush(); left = a; }
    right = a + COLUMN;
  });
  flush();
  c.globalAlpha = 1;
}

/** Lines over time from 0, or the lowest value, to the highest, which stands at the left. */
function counter(
  c: CanvasRenderingContext2D, t: Theme, v: Scene, block: LinesBlock, y: number, h: number, x: (n: number) => number,
): void {
  let high = -Infinity, low = 0;
  for (const series of block.series) {
    for (const value of series.high) high = Math.max(high, value);
    for (const value of series.low) low = Math.min(low, value);
  }
  const scale = (h - 6) / (high > low ? high - low : 1);
  block.series.forEach((series, place) => {
    c.beginPath();
    c.moveTo(x(series.t[0]!), y + h - 2);
    series.t.forEach((moment, i) => {
      c.lineTo(x(moment), y + h - 2 - (series.high[i]! - low) * scale);
      const next = series.t[i + 1];
      if (next !== undefined) c.lineTo(x(next), y + h - 2 - (series.high[i]! - low) * scale);
    });
    c.lineTo(x(series.t[series.t.length - 1]!), y + h - 2);
    c.globalAlpha = place ? 0.2 : 0.55;
    c.fillStyle = t.fill[place % 3]!;
    c.fill();
    c.globalAlpha = 1;
    c.strokeStyle = t.soft;
    c.lineWidth = 0.7;
    c.stroke();
  });
  c.font = "10px system-ui, sans-serif";
  c.fillStyle = t.soft;
  c.fillText(cell(block.unit, high), v.gutter + 4, y + 7);
}

const PIN_ROOM = 40;

/** Whether a press at x of a row's label is on its pin. */
export function isOnPin(x: number, gutter: number): boolean { return x > gutter - PIN_ROOM && x < gutter; }

function label(c: CanvasRenderingContext2D, layout: Layout, t: Theme, v: Scene, row: Row, y: number): void {
  const own = v.label !== undefined && v.label.kind !== "group" && row.kind !== "group" && v.label.key === row.key;
  const fit = (text: string, size: number) => {
    const room = Math.floor((v.gutter - 14 - (own ? PIN_ROOM - 8 : 0)) / size);
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
  if (row.kind === "lane" && !row.first) return;
  const pinned = layout.pins.has(row.key), flat = layout.flat.has(row.key);
  const folds = row.kind === "lane" && row.lanes > 1;
  const more = folds && flat ? ` +${row.lanes - 1} ${row.lanes === 2 ? "row" : "rows"}` : "";
  const name = layout.nameOf(row.key) + more;
  c.fillText(fit(folds ? `${flat ? "▸" : "▾"} ${name}` : name, 5.9), 10, y + row.h / 2);
  if (!own && !pinned) return;
  c.fillStyle = own ? t.select : t.soft;
  c.fillText(pinned ? "unpin" : "pin", v.gutter - (pinned ? 36 : 24), y + row.h / 2);
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

/** The critical path over a veil: its events, and lines from each to the next. */
function criticalPath(
  c: CanvasRenderingContext2D, model: Model, layout: Layout, t: Theme, v: Scene, x: (n: number) => number,
): void {
  c.save();
  c.beginPath();
  c.rect(v.gutter, TOP, v.width - v.gutter, v.height - TOP);
  c.clip();
  c.globalAlpha = 0.6;
  c.fillStyle = t.ground;
  c.fillRect(v.gutter, TOP, v.width - v.gutter, v.height - TOP);
  c.globalAlpha = 1;
  const looks = looksOf(model.block.names);
  const { from, to } = v.walk!;
  const line = new Path2D();
  let before: { x: number; y: number } | undefined;
  v.path!.forEach((event, i) => {
    const own = event.id < 0 ? -1 : layout.laneY[event.lane]!;
    if (own < 0) { before = undefined; return; }
    const seen = layout.seen({ y: own, h: 18 }, v.scroll, v.height - TOP);
    const y = TOP + layout.toView(own, v.scroll);
    const a = x(from[i]!), b = x(to[i]!);
    const inView = to[i]! >= v.from && from[i]! <= v.to;
    // A piece that leads to its event ends where that begins: only the line is drawn.
    const leads = to[i]! <= event.start;
    if (inView && seen && !leads) {
      const h = model.block.tracks[model.lanes[event.lane]!.track]!.kind === "thread" ? 13 : 16;
      c.fillStyle = t.fill[fillOf(looks, event.cls, event.name)]!;
      c.fillRect(a, y, Math.max(1, b - a), h);
      c.strokeStyle = t.accent;
      c.lineWidth = 1;
      if (b - a > 2) c.strokeRect(a + 0.5, y + 0.5, b - a - 1, h - 1);
    }
    const middle = y + 7;
    if (inView && before && (b - before.x > 0.7 || Math.abs(before.y - middle) > 2)) {
      line.moveTo(before.x, before.y);
      line.lineTo(a, before.y);
      line.lineTo(leads ? b : a, middle);
    }
    if (!before || b - before.x > 0.7 || !inView) before = { x: leads ? b : Math.max(a, b), y: middle };
  });
  c.strokeStyle = t.accent;
  c.lineWidth = 1.2;
  c.stroke(line);
  c.restore();
}

function overlays(
  c: CanvasRenderingContext2D, model: Model, layout: Layout, t: Theme, v: Scene, perPixel: number, x: (n: number) => number,
): void {
  c.save();
  c.beginPath();
  c.rect(v.gutter, TOP, v.width - v.gutter, v.height - TOP);
  c.clip();
  c.fillStyle = t.accent;
  const band = (a: number, b: number, rank: number | null, strong: boolean) => {
    for (const [top, h] of rank === null ? [[TOP, v.height]] as const : bands(layout, model, v, rank)) {
      c.globalAlpha = strong ? 0.16 : 0.09;
      c.fillRect(x(a), top, Math.max(1, x(b) - x(a)), h);
      if (!strong) continue;
      c.globalAlpha = 0.8;
      c.fillRect(x(a), top, 1, h);
      c.fillRect(x(b), top, 1, h);
    }
  };
  for (const [a, b] of v.evidence) if (b >= v.from && a <= v.to) band(a, b, null, true);
  if (v.walk && v.place >= 0) {
    if (!v.path) for (const range of mergePlacesByRank(v.walk, v.from, v.to, 2 * perPixel)) band(range.from, range.to, range.rank, false);
    band(v.walk.from[v.place]!, v.walk.to[v.place]!, v.walk.ranks?.[v.place] ?? null, true);
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

/** Where the rows of a rank are in view: top and height of each stretch of them. */
function bands(layout: Layout, model: Model, v: Scene, rank: number): [number, number][] {
  const found: [number, number][] = [];
  for (const row of layout.rows) {
    if (row.kind !== "lane" || model.block.tracks[row.key]!.rank !== rank) continue;
    if (!layout.seen(row, v.scroll, v.height - TOP)) continue;
    const y = TOP + layout.toView(row.y, v.scroll), last = found[found.length - 1];
    if (last && y - last[0] - last[1] < 8) last[1] = y + row.h - last[0];
    else found.push([y, row.h]);
  }
  return found;
}

/** From the launching call to what it launched, from a thread to the one that it woke, or from a send to its receive. */
function arrow(
  c: CanvasRenderingContext2D, layout: Layout, t: Theme, v: Scene, x: (n: number) => number, one: Ev, two: Ev,
): void {
  // A thread is woken while its waker runs: the arrow is at that moment.
  const isWakeUp = one.cls > OTHER;
  // Of a message the receive ends last.
  const isMessage = !isWakeUp && one.cls > LAST_OF_DEVICE && two.cls > LAST_OF_DEVICE;
  const isSecond = isWakeUp ? one.start >= two.start : isMessage ? one.end >= two.end : one.cls <= LAST_OF_DEVICE;
  const [call, work] = isSecond ? [two, one] : [one, two];
  const ya = layout.laneY[call.lane]!, yb = layout.laneY[work.lane]!;
  if (ya < 0 || yb < 0) return;
  const b = x(isMessage ? work.end : work.start), a = isWakeUp ? b - 5 : x(isMessage ? call.start : call.end);
  const from = TOP + layout.toView(ya, v.scroll) + 7, to = TOP + layout.toView(yb, v.scroll) + 8;
  const bend = isWakeUp ? 0 : Math.max(20, Math.min(120, Math.abs(b - a) / 2));
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
  if (v.walks.length) c.fillText("findings", 8, RULER + 4);
  c.fillStyle = t.accent;
  c.globalAlpha = 0.75;
  for (const walk of v.walks) {
    for (const range of mergePlaces(walk, v.from, v.to, 2 * perPixel)) {
      const left = Math.max(v.gutter, x(range.from)), right = Math.min(v.width, Math.max(x(range.to), x(range.from) + 3));
      if (right > left) c.fillRect(left, RULER + 2, right - left, STRIP - 5);
    }
  }
  c.globalAlpha = 1;
}

/** A moment as short as the step between ticks allows. */
function tick(moment: number, step: number): string {
  const [unit, scale] = moment >= 1e9 ? ["s", 1e9] : moment >= 1e6 ? ["ms", 1e6] : moment >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  const decimals = Math.max(0, Math.ceil(Math.log10((scale as number) / step) - 1e-9));
  return `${(moment / (scale as number)).toFixed(Math.min(9, decimals))} ${unit}`;
}
