// The picture of memory: blocks stacked over time, each as long as it lived.

import { amount, moment, share } from "../shared/format";
import type { MemoryBlock } from "./data";
import { h } from "../shared/dom";

const WIDTH = 1200, HEIGHT = 420, LEFT = 84, TOP = 10, BOTTOM = 22;
const HUES = ["#4c78a8", "#e4a13b", "#59936b", "#b279a2", "#6db3c1", "#c9605a", "#9a8f84", "#8a94a3"];
const REST = "#b9bec6";

interface Spot { block: number; column: number; low: number }

/** Draws once; what is under the pointer is drawn over it. */
export function memory(block: MemoryBlock): HTMLElement {
  const columns = block.moments.length;
  const most = Math.max(...block.allocated, 1);
  const plot = h("canvas", { width: WIDTH, height: HEIGHT, class: "memory-plot", tabindex: 0, role: "img",
    "aria-label": `Allocated memory over ${block.events.toLocaleString("en-US")} events, at most ${amount("bytes", most)}` });
  const over = h("canvas", { width: WIDTH, height: HEIGHT, class: "memory-over", "aria-hidden": "true" });
  const read = h("div", { class: "memory-read", "aria-live": "polite" }, "Point at a block, or use the arrow keys: what it holds, and the call stack that allocated it.");
  const x = (column: number) => LEFT + ((WIDTH - LEFT - 8) * column) / columns;
  const y = (bytes: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - bytes / most);
  const alive = aliveIn(block, columns);
  const hue = (i: number) => HUES[block.of[i]! % HUES.length]!;

  const ink = plot.getContext("2d")!;
  ink.font = "12px system-ui, sans-serif";
  ink.fillStyle = "#888";
  ink.textAlign = "right";
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    ink.fillText(amount("bytes", most * part), LEFT - 6, y(most * part) + 4);
    ink.fillRect(LEFT, y(most * part), WIDTH - LEFT - 8, 0.5);
  }
  for (const [column, side] of [[0, "left"], [columns - 1, "right"]] as const) {
    ink.textAlign = side;
    ink.fillText(moment(block.moments[column] ?? 0), column ? WIDTH - 8 : LEFT, HEIGHT - 6);
  }
  for (let column = 0; column < columns; column++) {
    const at = x(column), width = x(column + 1) - at + 0.5;
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

  const spotAt = (px: number, py: number): Spot | null => {
    const column = Math.floor(((px - LEFT) * columns) / (WIDTH - LEFT - 8));
    if (column < 0 || column >= columns) return null;
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
      read.replaceChildren(h("b", {}, `${amount("bytes", Math.max(0, block.rest[column]!))} in smaller blocks`), h("p", { class: "note" }, when));
      return;
    }
    light.fillStyle = "rgba(0, 0, 0, 0.45)";
    for (let c = block.first[i]!; c <= block.last[i]!; c++) {
      let low = Math.max(0, block.rest[c]!);
      for (const j of alive[c]!) { if (j === i) break; low += block.bytes[j]!; }
      light.fillRect(x(c), y(low + block.bytes[i]!), x(c + 1) - x(c) + 0.5, Math.max(1, y(low) - y(low + block.bytes[i]!)));
    }
    const size = block.bytes[i]!;
    read.replaceChildren(
      h("b", {}, `${amount("bytes", size)} (${share((100 * size) / whole)}), ${block.kinds[block.of[i]!]}`),
      h("p", { class: "note" }, when),
      h("pre", {}, block.stacks[block.stack[i]!]!.join("\n")));
  };
  plot.onpointermove = (event) => {
    const box = plot.getBoundingClientRect();
    show(spotAt(((event.clientX - box.left) * WIDTH) / box.width, ((event.clientY - box.top) * HEIGHT) / box.height));
  };
  // The largest block of a moment, from moment to moment.
  let column = block.allocated.indexOf(most);
  plot.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    column = Math.min(columns - 1, Math.max(0, column + step));
    const largest = alive[column]!.reduce((a, b) => (a < 0 || block.bytes[b]! > block.bytes[a]! ? b : a), -1);
    show({ block: largest, column, low: 0 });
  };
  const used = [...new Set(block.of)].sort((a, b) => a - b);
  const key = (colour: string, label: string) => {
    const swatch = h("i", { class: "swatch" });
    swatch.style.background = colour;
    return h("span", { class: "key" }, swatch, label);
  };
  return h("section", { class: "memory" },
    h("p", { class: "note" }, ...used.map((kind) => key(HUES[kind % HUES.length]!, block.kinds[kind]!)), key(REST, "smaller blocks")),
    h("div", { class: "memory-holder" }, plot, over), read,
    h("p", { class: "note" }, `${block.events.toLocaleString("en-US")} events in ${columns.toLocaleString("en-US")} columns, each at its highest moment; equal widths are equal numbers of events, not of time. ${block.bytes.length.toLocaleString("en-US")} blocks are drawn one by one.`));
}

function aliveIn(block: MemoryBlock, columns: number): number[][] {
  const alive: number[][] = Array.from({ length: columns }, () => []);
  block.bytes.forEach((_, i) => {
    for (let c = block.first[i]!; c <= block.last[i]!; c++) alive[c]!.push(i);
  });
  return alive;
}
