// Draws the pieces of a panel, by kind. A new panel in Python needs nothing here.

import { curves, lines, shares } from "./charts";
import type { Block } from "./data";
import { h, keepUnits, onOpening } from "../shared/dom";
import { type ShowFinding, cards } from "./findings";
import { flame } from "./flamepanel";
import { flow } from "./flow";
import { heat } from "./heat";
import { memory } from "./memory";
import { segments } from "./segments";
import { strip } from "./strip";
import { sql } from "./sql";
import { pictureButtons } from "../shared/picture";
import { type Actions, table } from "./table";

export interface Tools extends Actions {
  length: number;
  showFinding: ShowFinding;
  timeline(): HTMLElement;
  listens(panel: string): boolean;
}

export function draw(block: Block, tools: Tools): HTMLElement {
  switch (block.kind) {
    case "text": return h("p", { class: block.role }, keepUnits(block.text));
    case "table": return table(block, tools);
    case "shares": return shares(block);
    case "strip": return strip(block, tools);
    case "lines": return lines(block, tools.length);
    case "findings": return cards(block.cards, tools.showFinding);
    case "fold": return h("details", {}, h("summary", {}, block.title), h("pre", { tabindex: 0 }, block.text));
    case "group": return group(block, tools);
    case "flow": return flow(block);
    case "list": return h("section", {}, h("h3", {}, block.title),
      h("ul", {}, ...block.items.map((item) => h("li", {}, item))));
    case "limits": return limits(block.title, block.rows);
    case "image": return image(block);
    case "flame": return flame(block.page, () => tools.listens("flame"));
    case "memory": return memory(block);
    case "heat": return heat(block);
    case "segments": return segments(block);
    case "timeline": return tools.timeline();
    case "choice": return choice(block, tools);
    case "curves": return curves(block);
    case "sql": return sql(block, (blocks) => blocks.map((one) => draw(one, tools)));
  }
}

/** A drawing in both themes; the page's style shows the one that fits. */
function image(block: { svg: string; dark: string; alt: string }): HTMLElement {
  const [light, dark] = [block.svg, block.dark].map((svg) => h("img", { src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: block.alt })) as [HTMLImageElement, HTMLImageElement];
  light.className = "in-light";
  dark.className = "in-dark";
  const now = () => (dark.checkVisibility() ? dark : light);
  return h("div", {}, h("div", { class: "caption" }, h("span"), pictureButtons(now, () => block.alt)),
    h("div", { class: "scroll picture", tabindex: 0, role: "region", "aria-label": block.alt }, light, dark));
}

/** Blocks under a title, drawn when it is opened. */
function group(block: { title: string; blocks: Block[] }, tools: Tools): HTMLElement {
  const holder = h("div", {});
  const whole = h("details", { class: "group" }, h("summary", {}, block.title), holder);
  onOpening(whole, () => {
    if (!holder.childElementCount) holder.replaceChildren(...block.blocks.map((one) => draw(one, tools)));
  });
  return whole;
}

/** One of several groups of blocks at a time, drawn when it is chosen. */
function choice(block: { label: string; options: { label: string; blocks: Block[] }[] }, tools: Tools): HTMLElement {
  const list = h("select", {}, ...block.options.map((option, place) => h("option", { value: place }, option.label)));
  const holder = h("div", { class: "chosen-blocks" });
  const show = () => holder.replaceChildren(...block.options[Number(list.value)]!.blocks.map((one) => draw(one, tools)));
  list.onchange = show;
  if (block.options.length) show();
  return h("section", {}, h("label", { class: "choice" }, `${block.label} `, list), holder);
}

function limits(title: string, rows: { severity: string; text: string; remedy: string }[]): HTMLElement {
  const loud = rows.filter((row) => row.severity !== "info");
  const quiet = rows.filter((row) => row.severity === "info");
  const item = (row: { severity: string; text: string; remedy: string }) =>
    h("li", { class: row.severity }, row.text, row.remedy ? h("span", { class: "soft" }, ` → ${row.remedy}`) : null);
  if (!rows.length) return h("section", {}, h("h3", {}, title), h("p", { class: "note" }, "No known limits."));
  return h("section", { class: "limits" }, h("h3", {}, title),
    loud.length ? h("ul", {}, ...loud.map(item)) : null,
    quiet.length
      ? h("details", { open: !loud.length && quiet.length < 5 }, h("summary", {}, `${quiet.length} ${quiet.length === 1 ? "note" : "notes"}`),
        h("ul", {}, ...quiet.map(item)))
      : null);
}
