// Search, steps, findings and which rows are open: everything that the canvas offers, as controls.

import { count } from "../../shared/format";
import type { Mark } from "../data";
import { h } from "../dom";
import type { Layout } from "./layout";

export interface Bar {
  element: HTMLElement; search: HTMLInputElement; found: HTMLOutputElement;
  sync(): void; addMarks(): void; said(drawn: { single: number; several: number }): void;
  problem(text: string): void;
}

export interface Wishes {
  layout: Layout;
  marks: Mark[];
  search(text: string): void;
  step(direction: 1 | -1): void;
  fit(): void;
  zoom(factor: number): void;
  redraw(): void;
  mark(place: number): void;
}

export function toolbar(w: Wishes): Bar {
  const search = h("input", { type: "search", placeholder: "Search names", "aria-label": "Search names in the timeline", id: "timeline-search" });
  const found = h("output", { for: "timeline-search" });
  let timer = 0;
  search.oninput = () => { clearTimeout(timer); timer = window.setTimeout(() => w.search(search.value), 120); };
  search.onkeydown = (event) => {
    if (event.key === "Enter") { clearTimeout(timer); w.search(search.value); w.step(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; w.search(""); search.blur(); }
    event.stopPropagation();
  };
  const button = (text: string, label: string, act: () => void) => {
    const element = h("button", { type: "button", "aria-label": label, title: label }, text);
    element.onclick = act;
    return element;
  };
  const boxes = new Map<string, HTMLInputElement>();
  const rows = h("div");
  for (const group of w.layout.groups) {
    const box = h("input", { type: "checkbox" });
    box.onchange = () => { w.layout.toggle(group); w.redraw(); };
    boxes.set(group, box);
    rows.append(h("label", {}, box, ` ${group}`));
  }
  const sync = () => boxes.forEach((box, group) => { box.checked = !w.layout.closed.has(group); });
  sync();
  const list = h("div");
  const marks = h("details", { class: "menu", hidden: true }, h("summary", {}, "Findings"), list);
  const addMarks = () => {
    marks.hidden = !w.marks.length;
    list.replaceChildren(...w.marks.map((mark, place) => button(mark.title, `Show ${mark.title}`, () => w.mark(place))));
  };
  addMarks();
  const drawn = h("span", { class: "drawn" });
  const element = h("div", { class: "controls" }, search, found,
    button("‹", "Previous match", () => w.step(-1)), button("›", "Next match", () => w.step(1)),
    button("−", "Zoom out", () => w.zoom(1.6)), button("+", "Zoom in", () => w.zoom(0.625)),
    button("Whole run", "Show the whole run", () => w.fit()), marks,
    h("details", { class: "menu" }, h("summary", {}, "Rows"), rows), drawn);
  let saying = 0;
  // What of the rows in view is drawn by itself, and what stands together: said when the view rests,
  // since a new text lays out the page, and nobody reads it while it changes.
  const said = (now: { single: number; several: number }) => {
    clearTimeout(saying);
    saying = window.setTimeout(() => {
      const several = now.several ? `, ${count(now.several)} marks of several` : "";
      drawn.textContent = `in view: ${count(now.single)} events${several}`;
    }, 60);
  };
  const problem = (text: string) => { clearTimeout(saying); drawn.textContent = text; };
  return { element, search, found, sync, addMarks, said, problem };
}
