// The picture of an allocator: each segment a row, its blocks where they lie.

import { h, isTouched } from "../shared/dom";
import { amount, share } from "../shared/format";
import type { SegmentsBlock } from "./data";
import { HUES, colourKey } from "./memory";

const WIDTH = 1200, LEFT = 84;
const MIXED = "#b9bec6";

/** What is under the pointer, or chosen by arrow keys, is told below. */
export function segments(block: SegmentsBlock): HTMLElement {
  const rows = block.bytes.length;
  const step = Math.max(4, Math.min(18, Math.floor(640 / Math.max(1, rows))));
  const height = Math.max(1, rows) * step;
  const most = Math.max(...block.bytes, 1);
  const free = block.kinds.indexOf("free");
  const span = WIDTH - LEFT - 8;
  const plot = h("canvas", { width: WIDTH, height, class: "segments", tabindex: 0, role: "img",
    "aria-label": `${rows} segments of the allocator, ${amount("bytes", block.bytes.reduce((a, b) => a + b, 0))} in all` });
  const read = h("div", { class: "memory-read", "aria-live": "polite" }, isTouched() ? "Tap a block: what it holds, and the call stack that allocated it." : "Point at a block, or use the arrow keys: what it holds, and the call stack that allocated it.");
  const colour = (kind: number) => (kind > free ? MIXED : HUES[kind % HUES.length]!);
  const place = (i: number): [number, number, number] => {
    const x = LEFT + (span * block.at[i]!) / most;
    return [x, block.row[i]! * step, Math.max(0.4, (span * block.size[i]!) / most)];
  };
  const inRow: number[][] = Array.from({ length: rows }, () => []);
  block.row.forEach((row, i) => inRow[row]!.push(i));

  const ink = plot.getContext("2d")!;
  const draw = (lit: number) => {
    ink.clearRect(0, 0, WIDTH, height);
    block.size.forEach((_, i) => {
      const [x, y, width] = place(i);
      const gap = width > 3 ? 0.6 : 0;
      if (block.of[i] === free) {
        ink.strokeStyle = MIXED;
        ink.lineWidth = 0.6;
        ink.strokeRect(x + 0.3, y + 0.8, Math.max(0.1, width - 0.6), step - 2);
      } else {
        ink.fillStyle = i === lit ? "#000" : colour(block.of[i]!);
        ink.fillRect(x, y + 0.5, width - gap, step - 1.5);
      }
    });
    ink.font = "12px system-ui, sans-serif";
    ink.fillStyle = "#888";
    ink.textAlign = "right";
    // A label where there is room for one.
    const every = Math.max(1, Math.ceil(16 / step));
    for (let row = 0; row < rows; row += every) ink.fillText(amount("bytes", block.bytes[row]!), LEFT - 6, Math.max(9, row * step + Math.min(step, 12)));
  };
  const show = (i: number) => {
    draw(i);
    if (i < 0) return;
    const size = block.size[i]!, row = block.row[i]!;
    const what = block.count[i]! > 1 ? `${block.count[i]!.toLocaleString("en-US")} ${block.kinds[block.of[i]!]}${block.of[i] === free ? " blocks" : ""}` : block.kinds[block.of[i]!]!;
    read.replaceChildren(
      h("b", {}, `${amount("bytes", size)} (${share((100 * size) / block.bytes[row]!)} of its segment), ${what}`),
      h("p", { class: "note" }, `${block.names[row]!}, ${amount("bytes", block.bytes[row]!)}`),
      ...(block.of[i] === free || block.count[i]! > 1 ? [] : [h("pre", {}, block.stacks[block.stack[i]!]!.join("\n"))]));
  };
  plot.onpointermove = (event) => {
    const box = plot.getBoundingClientRect();
    const px = ((event.clientX - box.left) * WIDTH) / box.width, row = Math.floor(((event.clientY - box.top) * height) / box.height / step);
    const found = (inRow[row] ?? []).find((i) => px >= place(i)[0] && px < place(i)[0] + place(i)[2]);
    show(found ?? -1);
  };
  let chosen = -1;
  plot.onkeydown = (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const turn = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if ((!move && !turn) || !block.size.length) return;
    event.preventDefault();
    if (move) chosen = Math.min(block.size.length - 1, Math.max(0, chosen + move));
    else chosen = inRow[Math.min(rows - 1, Math.max(0, (chosen < 0 ? -1 : block.row[chosen]!) + turn!))]![0] ?? chosen;
    show(chosen);
  };
  draw(-1);
  const used = [...new Set(block.of)].filter((kind) => kind < free).sort((a, b) => a - b);
  const hidden = block.left ? ` ${block.left.toLocaleString("en-US")} smaller segments are not drawn.` : "";
  return h("section", { class: "memory" },
    h("p", { class: "note" }, ...used.map((kind) => colourKey(colour(kind), block.kinds[kind]!)), "outlined: free"),
    h("div", { class: "memory-holder" }, plot), read,
    h("p", { class: "note" }, `${rows.toLocaleString("en-US")} segments, the largest first, as they were when the recording ended.${hidden}`));
}
