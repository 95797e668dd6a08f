// Rows of ranks by time: the darker a place, the larger its share. Named rows stand above the others.

import { h, isNarrow } from "../shared/dom";
import { amount, roundTicks, tickLabel } from "../shared/format";
import { pictureButtons } from "../shared/picture";
import type { HeatBlock } from "./data";

const LEFT = 96, AXIS = 20;
const HUE = "201, 96, 90"; // the accent of late ranks, in both themes

export function heat(block: HeatBlock): HTMLElement {
  // A phone's picture is drawn at its size: shrunk, nobody could read it.
  const WIDTH = isNarrow() ? 480 : 1200, WHY = isNarrow() ? 90 : 150;
  const bins = Math.max(1, ...block.rows.map((row) => row.values.length));
  const named = block.rows.filter((row) => row.why).length;
  // A named row has room for its words; the others fill one screen.
  const thin = Math.max(4, Math.min(16, Math.floor(560 / Math.max(1, block.rows.length - named))));
  const tall = 16, gap = named ? 6 : 0;
  const top = (row: number) => (row < named ? row * tall : named * tall + gap + (row - named) * thin);
  const high = (row: number) => (row < named ? tall : thin);
  const height = top(block.rows.length) + AXIS;
  const span = WIDTH - LEFT - (named ? WHY : 8);
  const plot = h("canvas", { width: WIDTH, height, class: "segments", tabindex: 0, role: "img",
    "aria-label": `${block.title}: ${block.rows.length} rows, ${bins} columns of ${amount("ns", block.bin_ns)}` });
  const read = h("p", { class: "note", "aria-live": "polite" }, "Point at a place, or use the arrow keys.");
  const ink = plot.getContext("2d")!;
  const draw = (at: [number, number] | null) => {
    ink.clearRect(0, 0, WIDTH, height);
    block.rows.forEach((row, n) => {
      row.values.forEach((value, bin) => {
        if (value <= 0) return;
        ink.fillStyle = `rgba(${HUE}, ${0.08 + (0.92 * Math.min(100, value)) / 100})`;
        ink.fillRect(LEFT + (span * bin) / bins, top(n) + 0.5, span / bins + 0.3, high(n) - 1);
      });
    });
    ink.font = "12px system-ui, sans-serif";
    ink.fillStyle = "#888";
    ink.textAlign = "right";
    const every = Math.max(1, Math.ceil(14 / thin));
    block.rows.forEach((row, n) => {
      if (n < named || (n - named) % every === 0) ink.fillText(row.label, LEFT - 8, top(n) + Math.min(high(n), 13));
    });
    ink.textAlign = "left";
    block.rows.slice(0, named).forEach((row, n) => ink.fillText(row.why, LEFT + span + 8, top(n) + 12));
    ink.textAlign = "center";
    const whole = bins * block.bin_ns;
    for (const t of roundTicks(whole, isNarrow() ? 3 : 6)) ink.fillText(tickLabel(t), LEFT + (span * t) / whole, height - 5);
    if (at) {
      ink.strokeStyle = "#888";
      ink.strokeRect(LEFT + (span * at[1]) / bins, top(at[0]), Math.max(2, span / bins), high(at[0]));
    }
  };
  const show = (row: number, bin: number) => {
    const here = block.rows[row];
    if (!here || bin < 0 || bin >= bins) { draw(null); return; }
    draw([row, bin]);
    const who = here.label.includes("-") ? `the latest of ranks ${here.label}` : `rank ${here.label}`;
    const late = ((here.values[bin] ?? 0) * block.bin_ns) / 100;
    read.replaceChildren(h("b", {}, `${who}: late by ${amount("ns", late)}`),
      ` in the ${amount("ns", block.bin_ns)} from ${amount("ns", bin * block.bin_ns)} on${here.why ? `; ${here.why}` : ""}`);
  };
  plot.onpointermove = (event) => {
    const box = plot.getBoundingClientRect();
    const x = ((event.clientX - box.left) * WIDTH) / box.width, y = ((event.clientY - box.top) * height) / box.height;
    show(block.rows.findIndex((_, n) => y >= top(n) && y < top(n) + high(n)), Math.floor(((x - LEFT) / span) * bins));
  };
  let row = 0, bin = 0;
  plot.onkeydown = (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    row = Math.min(block.rows.length - 1, Math.max(0, row + move[0]!));
    bin = Math.min(bins - 1, Math.max(0, bin + move[1]!));
    show(row, bin);
  };
  draw(null);
  return h("section", {}, h("div", { class: "caption" }, h("h3", {}, block.title), pictureButtons(() => plot, () => block.title, false)),
    h("div", { class: "memory-holder" }, plot), read,
    h("p", { class: "note" }, `A column is ${amount("ns", block.bin_ns)}, and as dark as the share of it by which a rank comes later than the median rank of its collectives. A row of several ranks shows the latest.`));
}
