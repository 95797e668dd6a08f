// Spans of time in one line, coloured by what they are: the steps of a server, by phase.

import { amount } from "../shared/format";
import { h, s } from "../shared/dom";
import type { StripBlock } from "./data";
import type { Actions } from "./table";

const WIDTH = 1200, HEIGHT = 34;
const COLOURS = ["compute", "exposed_copy", "exposed_comm", "unknown", "idle"];

/** What is under the pointer is told in a title; a click shows it in the timeline. */
export function strip(block: StripBlock, tools: Actions): HTMLElement {
  const first = block.start[0] ?? 0;
  const last = block.end.reduce((a, b) => Math.max(a, b), first + 1);
  const x = (t: number) => (WIDTH * (t - first)) / (last - first);
  const fill = (kind: number) => `fill-${COLOURS[Math.min(kind, COLOURS.length - 1)]!}`;
  const bars = block.start.map((start, i) => {
    const end = block.end[i]!;
    const bar = s("rect", { x: x(start), y: 0, width: Math.max(0.5, x(end) - x(start)), height: HEIGHT, class: fill(block.of[i]!) },
      s("title", {}, `${block.kinds[block.of[i]!]!}, ${amount("ns", end - start)}${block.words[i] ? `: ${block.words[i]!}` : ""}`));
    bar.addEventListener("click", () => tools.showRange(start, end));
    return bar;
  });
  const words = block.kinds.map((kind, i) => `${block.of.filter((of) => of === i).length} ${kind}`).join(", ");
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: HEIGHT, class: "bar", role: "img", "aria-label": `${block.title}: ${words}` }, ...bars);
  return h("section", { class: "shares" }, h("h3", {}, block.title), svg,
    h("p", { class: "note" }, ...block.kinds.flatMap((kind, i) => [h("i", { class: `swatch ${fill(i)}` }), `${kind}  `]),
      `· ${amount("ns", last - first)} in all; what is white lies between them. Click one to see it in the timeline.`));
}
