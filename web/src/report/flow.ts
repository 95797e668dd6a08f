// The units that data passes on its way to a kernel, with how busy each is and what moves between.

import { h, s } from "../shared/dom";
import { share } from "../shared/format";
import type { FlowBlock } from "./data";

// A unit that works at so much of its peak holds the others up (Nsight Compute's rule SOLBottleneck).
const BUSY = 60;

export function flow(block: FlowBlock): HTMLElement {
  const parts = block.units.flatMap((unit, place) => {
    const link = block.links[place - 1];
    const arrow = place ? h("li", { class: "flow-link" }, h("span", { "aria-hidden": "true" }, "⇄"), h("small", {}, link || "")) : null;
    return [...(arrow ? [arrow] : []), h("li", { class: "flow-unit" }, h("b", {}, unit.label), bar(unit),
      h("span", {}, unit.pct === null ? "not measured" : `${share(unit.pct)} of its peak`),
      ...unit.notes.map((note) => h("small", {}, note)))];
  });
  return h("section", { class: "flow" }, h("h3", {}, block.title), h("ol", {}, ...parts));
}

function bar(unit: { pct: number | null }): SVGSVGElement {
  const pct = Math.max(0, Math.min(100, unit.pct ?? 0));
  return s("svg", { class: "flow-bar", height: 10, "aria-hidden": "true" },
    s("rect", { x: 0, y: 0, width: "100%", height: 10, class: "grid-fill" }),
    s("rect", { x: 0, y: 0, width: `${pct}%`, height: 10, class: pct >= BUSY ? "fill-accent" : "fill-compute" }));
}
