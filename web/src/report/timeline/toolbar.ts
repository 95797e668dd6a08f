// Search, steps, findings, colours and which rows are open or pinned: everything that the canvas
// offers, as controls.

import { count } from "../../shared/format";
import { h, onOpening } from "../../shared/dom";
import type { Layout } from "./layout";
import { FILES, MODULE, MOST_FILES, type Looks } from "./looks";
import type { Walk } from "./places";

export interface Bar {
  element: HTMLElement; search: HTMLInputElement; found: HTMLOutputElement;
  sync(): void; setWalks(walks: Walk[]): void; said(drawn: { single: number; several: number }): void;
  problem(text: string): void; setPath(on: boolean): void;
}

export interface Wishes {
  layout: Layout;
  looks: Looks;
  /** Classes of the run's events, by number. */
  classes: string[];
  hasPath: boolean;
  search(text: string): void;
  first(): void;
  step(direction: 1 | -1): void;
  fit(): void;
  zoom(factor: number): void;
  redraw(): void;
  walk(walk: Walk): void;
  path(): void;
  picture(): HTMLElement;
}

// As theme.ts numbers them.
const KINDS = ["compute", "comm", "copy", "unknown", "op", "annotation", "step", "api", "python", "device-range", "other",
  "running", "waiting", "asleep"];

export function toolbar(w: Wishes): Bar {
  const search = h("input", { type: "search", placeholder: "Search names", "aria-label": "Search names in the timeline", id: "timeline-search" });
  const found = h("output", { for: "timeline-search" });
  let timer = 0;
  // What is typed goes to its first place; Enter to the next one.
  const look = () => { clearTimeout(timer); timer = 0; w.search(search.value); w.first(); };
  search.oninput = () => { clearTimeout(timer); timer = window.setTimeout(look, 120); };
  search.onkeydown = (event) => {
    if (event.key === "Enter" && timer) look();
    else if (event.key === "Enter") w.step(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { search.value = ""; w.search(""); search.blur(); }
    event.stopPropagation();
  };
  const { element: rows, sync } = rowMenu(w);
  const list = h("div");
  const findings = h("details", { class: "menu", hidden: true }, h("summary", {}, "Findings"), list);
  const setWalks = (walks: Walk[]) => {
    findings.hidden = !walks.length;
    list.replaceChildren(...walks.map((walk) => button(walk.title, `Show ${walk.title}`, () => { findings.open = false; w.walk(walk); },
      h("small", {}, ` ${count(walk.count)} ${walk.count === 1 ? "place" : "places"}`))));
  };
  const path = button("Critical path", "Show what determines the length of the run", () => w.path());
  const setPath = (on: boolean) => path.setAttribute("aria-pressed", String(on));
  setPath(false);
  const drawn = h("span", { class: "drawn" });
  const element = h("div", { class: "controls" }, search, found,
    button("‹", "Previous match", () => w.step(-1)), button("›", "Next match", () => w.step(1)),
    button("−", "Zoom out", () => w.zoom(1.6)), button("+", "Zoom in", () => w.zoom(0.625)),
    button("Whole run", "Show the whole run", () => w.fit()), findings,
    w.hasPath ? path : null, rows, colours(w), w.picture(), drawn);
  let saying = 0;
  // What of the rows in view is drawn by itself, and what stands together: said when the view rests,
  // since a new text lays out the page, and nobody reads it while it changes.
  const said = (now: { single: number; several: number }) => {
    clearTimeout(saying);
    saying = window.setTimeout(() => {
      const several = now.several ? `, ${count(now.several)} merged` : "";
      drawn.textContent = `in view: ${count(now.single)} events${several}`;
    }, 60);
  };
  const problem = (text: string) => { clearTimeout(saying); drawn.textContent = text; };
  return { element, search, found, sync, setWalks, said, problem, setPath };
}

function button(text: string, label: string, act: () => void, more: Node | null = null): HTMLButtonElement {
  // A sign has no name to be called by; words are their own.
  const element = h("button", { type: "button", "aria-label": text.length < 3 ? label : undefined, title: label }, text, more);
  element.onclick = act;
  return element;
}

/** Groups to open and close, each with its rows to pin; made when it is opened, for there may be many. */
function rowMenu(w: Wishes): { element: HTMLElement; sync(): void } {
  const { layout } = w;
  const list = h("div");
  const element = h("details", { class: "menu" }, h("summary", {}, "Rows"), list);
  const change = (act: () => void) => () => { act(); sync(); w.redraw(); };
  const fill = () => {
    list.replaceChildren(
      h("div", { class: "buttons" }, button("Close all threads", "Show only the outermost row of each thread", change(() => layout.foldAll(true))),
        button("Open all threads", "Show all rows of each thread", change(() => layout.foldAll(false)))),
      ...layout.groups.map((group) => {
        const box = h("input", { type: "checkbox" });
        box.checked = !layout.closed.has(group);
        box.onchange = change(() => layout.toggle(group));
        return h("div", {}, h("label", {}, box, ` ${group}`), ...layout.keysOf(group).map((key) => {
          const pinned = layout.pins.has(key), name = layout.nameOf(key);
          const pin = button(pinned ? "unpin" : "pin", `${pinned ? "Unpin" : "Pin"} ${group}, ${name}`, change(() => layout.pin(key)));
          pin.className = "small";
          pin.setAttribute("aria-label", pin.title);
          pin.setAttribute("aria-pressed", String(pinned));
          return h("div", { class: "row-of" }, h("span", {}, name), pin);
        }));
      }));
  };
  const sync = () => { if (element.open) fill(); };
  onOpening(element, fill);
  return { element, sync };
}

function colours(w: Wishes): HTMLElement {
  const item = (kind: string, text: string) => h("span", { class: "key" }, h("i", { class: "swatch", style: `background: var(--t-${kind})` }), text);
  const modules = w.looks.of.includes(MODULE), others = w.looks.of.includes(FILES + MOST_FILES);
  return h("details", { class: "menu" }, h("summary", {}, "Colors"), h("div", { class: "colours" },
    // States of threads only where a trace of the scheduler has them.
    ...KINDS.slice(0, w.classes.length).map((kind, cls) => item(kind, kind === "python" ? "Python, built in" : w.classes[cls] ?? kind)),
    modules ? item("module", "module") : null,
    ...w.looks.files.map((file, place) => item(`file-${place}`, file.split("/").slice(-2).join("/"))),
    others ? item(`file-${MOST_FILES}`, "other Python files") : null));
}
