// The picture of memory: blocks stacked over time, each as long as it lived.

import { amount, moment, share } from "../shared/format";
import type { MemoryBlock } from "./data";
import { h, isTouched } from "../shared/dom";

const WIDTH = 1200, HEIGHT = 420, LEFT = 84, TOP = 10, BOTTOM = 22;
export const HUES = ["#4c78a8", "#e4a13b", "#59936b", "#b279a2", "#6db3c1", "#c9605a", "#9a8f84", "#8a94a3"];
const REST = "#b9bec6";

interface Spot { block: number; column: number; low: number }

/** Drawn anew when the view changes; what is under the pointer is drawn over it. */
export function memory(block: MemoryBlock): HTMLElement {
  const columns = block.moments.length;
  const most = Math.max(...block.allocated, 1);
  const plot = h("canvas", { width: WIDTH, height: HEIGHT, class: "memory-plot", tabindex: 0, role: "img",
    "aria-label": `Allocated memory over ${block.events.toLocaleString("en-US")} events, at most ${amount("bytes", most)}` });
  const over = h("canvas", { width: WIDTH, height: HEIGHT, class: "memory-over", "aria-hidden": "true" });
  const read = h("div", { class: "memory-read", "aria-live": "polite" }, isTouched() ? "Tap a block: what it holds, and the call stack that allocated it." : "Point at a block, or use the arrow keys: what it holds, and the call stack that allocated it.");
  // Where each column begins, from 0 to 1: by events, or by time.
  const byEvents = Array.from({ length: columns + 1 }, (_, column) => column / columns);
  const byTime = placeByTime(block.moments);
  let edges = byEvents, from = 0, to = 1;
  const span = WIDTH - LEFT - 8;
  const x = (column: number) => LEFT + (span * (edges[column]! - from)) / (to - from);
  // The column at a place, from 0 to 1, of all.
  const columnAt = (place: number) => {
    let low = 0, high = columns - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (edges[middle]! <= place) low = middle; else high = middle - 1;
    }
    return low;
  };
  const y = (bytes: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - bytes / most);
  const alive = aliveIn(block, columns);
  const hue = (i: number) => HUES[block.of[i]! % HUES.length]!;

  const ink = plot.getContext("2d")!;
  const draw = () => {
    ink.clearRect(0, 0, WIDTH, HEIGHT);
    const first = columnAt(from), last = columnAt(to);
    for (let column = first; column <= last; column++) {
      const at = Math.max(LEFT, x(column)), width = Math.min(LEFT + span, x(column + 1)) - at + 0.5;
      if (width <= 0) continue;
      let low = Math.max(0, block.rest[column]!);
      ink.fillStyle = REST;
      ink.fillRect(at, y(low), width, y(0) - y(low));
      for (const i of alive[column]!) {
        const high = low + block.bytes[i]!;
        ink.fillStyle = hue(i);
        ink.fillRect(at, y(high), width, Math.max(0.2, y(low) - y(high) - (y(low) - y(high) > 3 ? 0.6 : 0)));
        low = high;
      }
    }
    ink.font = "12px system-ui, sans-serif";
    ink.fillStyle = "#888";
    ink.textAlign = "right";
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      ink.fillText(amount("bytes", most * part), LEFT - 6, y(most * part) + 4);
      ink.fillRect(LEFT, y(most * part), span, 0.5);
    }
    for (const [column, side] of [[first, "left"], [last, "right"]] as const) {
      ink.textAlign = side;
      ink.fillText(amount("ns", block.moments[column] ?? 0), side === "right" ? WIDTH - 8 : LEFT, HEIGHT - 6);
    }
    plot.dataset.view = `${first}-${last}`;
  };
  // As much as a column at least, and never beyond the ends.
  const look = (start: number, end: number) => {
    const length = Math.min(1, Math.max(1 / columns, end - start));
    from = Math.min(1 - length, Math.max(0, start));
    to = from + length;
    show(null);
    draw();
  };
  const zoom = (factor: number, at: number) => look(at - (at - from) * factor, at + (to - at) * factor);

  const placeAt = (px: number) => from + ((px - LEFT) * (to - from)) / span;
  const spotAt = (px: number, py: number): Spot | null => {
    if (px < LEFT || px >= LEFT + span || !columns) return null;
    const column = columnAt(placeAt(px));
    let low = Math.max(0, block.rest[column]!);
    if (py > y(low)) return { block: -1, column, low: 0 };
    for (const i of alive[column]!) {
      if (py <= y(low) && py > y(low + block.bytes[i]!)) return { block: i, column, low };
      low += block.bytes[i]!;
    }
    return null;
  };
  const show = (spot: Spot | null) => {
    const light = over.getContext("2d")!;
    light.clearRect(0, 0, WIDTH, HEIGHT);
    if (!spot) return;
    const { block: i, column } = spot;
    const whole = block.allocated[column]!;
    const when = `${moment(block.moments[column]!)}: ${amount("bytes", whole)} allocated`;
    if (i < 0) {
      read.replaceChildren(h("b", {}, `${amount("bytes", Math.max(0, block.rest[column]!))}: ${block.rest_name}`), h("p", { class: "note" }, when));
      return;
    }
    light.fillStyle = "rgba(0, 0, 0, 0.45)";
    for (let c = block.first[i]!; c <= block.last[i]!; c++) {
      let low = Math.max(0, block.rest[c]!);
      for (const j of alive[c]!) { if (j === i) break; low += block.bytes[j]!; }
      const at = Math.max(LEFT, x(c)), width = Math.min(LEFT + span, x(c + 1)) - at + 0.5;
      if (width > 0) light.fillRect(at, y(low + block.bytes[i]!), width, Math.max(1, y(low) - y(low + block.bytes[i]!)));
    }
    const size = block.bytes[i]!;
    read.replaceChildren(
      h("b", {}, `${amount("bytes", size)} (${share((100 * size) / whole)}), ${block.kinds[block.of[i]!]}`),
      h("p", { class: "note" }, when),
      h("pre", {}, block.stacks[block.stack[i]!]!.join("\n")));
  };
  const pixel = (event: MouseEvent): [number, number] => {
    const box = plot.getBoundingClientRect();
    return [((event.clientX - box.left) * WIDTH) / box.width, ((event.clientY - box.top) * HEIGHT) / box.height];
  };
  let held: number | null = null;
  plot.onpointerdown = (event) => {
    held = placeAt(pixel(event)[0]);
    plot.setPointerCapture(event.pointerId);
  };
  plot.onpointerup = plot.onpointercancel = () => { held = null; };
  plot.onpointermove = (event) => {
    const [px, py] = pixel(event);
    if (held === null || to - from >= 1) return show(spotAt(px, py));
    const moved = held - placeAt(px);
    look(from + moved, to + moved);
  };
  // A plain wheel scrolls the page.
  plot.onwheel = (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 300), placeAt(pixel(event)[0]));
  };
  plot.ondblclick = () => look(0, 1);
  // The largest block of a moment, from moment to moment.
  let column = block.allocated.indexOf(most);
  plot.onkeydown = (event) => {
    const middle = (edges[column]! + edges[column + 1]!) / 2;
    const factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    if (factor) return zoom(factor, Math.min(to, Math.max(from, middle)));
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    column = Math.min(columns - 1, Math.max(0, column + step));
    const largest = alive[column]!.reduce((a, b) => (a < 0 || block.bytes[b]! > block.bytes[a]! ? b : a), -1);
    show({ block: largest, column, low: 0 });
  };
  const axis = h("button", { type: "button", class: "memory-axis", "aria-pressed": "false" }, "Axis: events");
  axis.onclick = () => {
    const timed = edges === byEvents;
    edges = timed ? byTime : byEvents;
    axis.textContent = timed ? "Axis: time" : "Axis: events";
    axis.setAttribute("aria-pressed", String(timed));
    look(0, 1);
  };
  draw();
  const used = [...new Set(block.of)].sort((a, b) => a - b);
  return h("section", { class: "memory" },
    h("p", { class: "note" }, ...used.map((kind) => colourKey(HUES[kind % HUES.length]!, block.kinds[kind]!)), colourKey(REST, block.rest_name), axis),
    h("div", { class: "memory-holder" }, plot, over), read,
    h("p", { class: "note" }, `${block.events.toLocaleString("en-US")} events in ${columns.toLocaleString("en-US")} columns, each at its highest moment. ${isTouched() ? "" : "Ctrl and the wheel zoom (or + and -), dragging moves, a double click shows all. "}${block.bytes.length.toLocaleString("en-US")} blocks are drawn one by one.`));
}

/** What a colour stands for. */
export function colourKey(colour: string, label: string): HTMLElement {
  const swatch = h("i", { class: "swatch" });
  swatch.style.background = colour;
  return h("span", { class: "key" }, swatch, label);
}

/** Where each moment begins in time, from 0 to 1; the last ends at 1. Equal steps where no time passes. */
function placeByTime(moments: number[]): number[] {
  const first = moments[0] ?? 0, length = (moments.at(-1) ?? 0) - first;
  if (length <= 0) return Array.from({ length: moments.length + 1 }, (_, column) => column / Math.max(1, moments.length));
  // Clocks of allocators may step back: a column never begins before the one to its left.
  let last = 0;
  return [...moments.map((time) => (last = Math.max(last, Math.min(1, (time - first) / length)))), 1];
}

function aliveIn(block: MemoryBlock, columns: number): number[][] {
  const alive: number[][] = Array.from({ length: columns }, () => []);
  block.bytes.forEach((_, i) => {
    for (let c = block.first[i]!; c <= block.last[i]!; c++) alive[c]!.push(i);
  });
  return alive;
}
