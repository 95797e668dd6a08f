// Spans of time, coloured by what they are: a server's steps in one line, its requests in a row each.

import { amount } from "../shared/format";
import { h, s } from "../shared/dom";
import type { StripBlock } from "./data";
import type { Actions } from "./table";

const WIDTH = 1200, HEIGHT = 34, ROW = 14;
const COLOURS = ["compute", "exposed_copy", "exposed_comm", "unknown", "idle"];

/** What is under the pointer is told in a title; a click shows it in the timeline. */
export function strip(block: StripBlock, tools: Actions): HTMLElement {
  const first = block.start.reduce((a, b) => Math.min(a, b), Infinity);
  const last = block.end.reduce((a, b) => Math.max(a, b), first + 1);
  const x = (t: number) => (WIDTH * (t - first)) / (last - first);
  const fill = (kind: number) => `fill-${COLOURS[Math.min(kind, COLOURS.length - 1)]!}`;
  const height = block.labels ? ROW : HEIGHT;
  const bars = block.start.map((start, i) => {
    const end = block.end[i]!;
    const bar = s("rect", { x: x(start), y: 0, width: Math.max(0.5, x(end) - x(start)), height, class: fill(block.of[i]!) },
      s("title", {}, `${block.kinds[block.of[i]!]!}, ${amount("ns", end - start)}${block.words[i] ? `: ${block.words[i]!}` : ""}`));
    if (block.moments) bar.addEventListener("click", () => tools.showRange(start, end));
    return bar;
  });
  const draw = (inside: SVGElement[], label: string) => s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", width: "100%", height, class: "bar", role: "img", "aria-label": label }, ...inside);
  const words = block.kinds.map((kind, i) => `${block.of.filter((of) => of === i).length} ${kind}`).join(", ");
  const picture = block.labels
    ? h("div", { class: "lanes" }, ...block.labels.flatMap((label, row) => [h("span", {}, label), draw(bars.filter((_, i) => block.rows![i] === row), label)]))
    : draw(bars, `${block.title}: ${words}`);
  return h("section", { class: "shares" }, h("h3", {}, block.title), picture,
    h("p", { class: "note" }, ...block.kinds.flatMap((kind, i) => [h("i", { class: `swatch ${fill(i)}` }), `${kind}  `]),
      `· ${amount("ns", last - first)} in all${block.note ? `; ${block.note}` : ""}.${block.moments ? " Click one to see it in the timeline." : ""}`));
}
