// The lists and boxes around a flame graph.

import { pictureButtons } from "../shared/picture";
import type { Page } from "./data";
import { type Around, type State, WEIGHTS } from "./state";
import type { View } from "./view";

function option(value: string, text: string): HTMLOptionElement {
  const element = document.createElement("option");
  element.value = value;
  element.textContent = text;
  return element;
}

/** Fill the controls, and let each redraw. */
export function controls(page: Page, state: State, view: View, around: Around): void {
  const part = <T extends HTMLElement>(id: string) => around.part<T>(id);
  const redraw = () => { state.zoom = ""; part("crumbs").replaceChildren(); view.draw(); view.remember(); };
  const weight = part<HTMLSelectElement>("weight");
  for (const name of Object.keys(page.stacks.values)) weight.append(option(name, WEIGHTS[name] ?? name));
  weight.value = state.weight;
  weight.onchange = () => { state.weight = weight.value; redraw(); };
  const order = part<HTMLSelectElement>("order");
  order.value = state.order;
  order.onchange = () => { state.order = order.value as State["order"]; redraw(); };
  const toggles: [string, () => boolean, (on: boolean) => void][] = [
    ["upward", () => state.upward, (on) => { state.upward = on; }],
    ["split", () => state.split, (on) => { state.split = on; }],
    ["merge", () => state.merge, (on) => { state.merge = on; }],
    ["safe", () => state.palette === "safe", (on) => { state.palette = on ? "safe" : "gpu"; }],
  ];
  for (const [id, get, set] of toggles) {
    const box = part<HTMLInputElement>(id);
    box.checked = get();
    box.onchange = () => { set(box.checked); redraw(); };
  }
  part("split").parentElement!.hidden = !page.frames.merged;
  part("picture").replaceChildren(pictureButtons(() => view.drawing, () => `${page.title || "flame"} ${state.weight}`));
  layers(page, state, redraw, part("layers"));
  filters(page, state, redraw, part("filters"));
  const search = part<HTMLInputElement>("search");
  search.value = state.search;
  let timer = 0;
  search.oninput = () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => view.search(search.value), 150);
  };
  part("reset").onclick = () => view.resetZoom();
  document.addEventListener("keydown", (event) => {
    if (!around.listens()) return;
    const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
    if (event.key === "/" && !typing) {
      search.focus();
      event.preventDefault();
    } else if (event.key === "Escape") {
      if (typing) { search.value = ""; view.search(""); search.blur(); } else view.resetZoom();
    } else if (!typing && event.key.startsWith("Arrow") && !(event.target instanceof HTMLSelectElement)) {
      view.move(event.key);
      event.preventDefault();
    }
  });
  let resize = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resize);
    resize = window.setTimeout(() => around.listens() && view.draw(), 150);
  });
}

/** A box per layer that some stack has. */
function layers(page: Page, state: State, redraw: () => void, list: HTMLElement): void {
  for (const place of [...new Set(page.frames.layer)].sort((a, b) => a - b)) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !state.hidden.has(place);
    box.onchange = () => {
      if (box.checked) state.hidden.delete(place);
      else state.hidden.add(place);
      redraw();
    };
    label.append(box, page.layers[place]!.doc);
    list.append(label);
  }
}

/** A list per root layer with several frames: ranks, processes, threads, streams. */
function filters(page: Page, state: State, redraw: () => void, holder: HTMLElement): void {
  for (const layer of ["run", "process", "thread", "device"]) {
    const place = page.layers.findIndex((l) => l.name === layer);
    const own = page.frames.merged?.length ?? page.frames.layer.length;
    const frames = [...page.frames.layer.keys()].filter((f) => f < own && page.frames.layer[f] === place);
    if (frames.length < 2) continue;
    const label = document.createElement("label");
    const list = document.createElement("select");
    list.append(option("", "all"));
    for (const frame of frames) list.append(option(String(frame), page.frames.name[frame] ?? ""));
    list.value = String(state.only.find((f) => frames.includes(f)) ?? "");
    list.onchange = () => {
      state.only = state.only.filter((f) => !frames.includes(f));
      if (list.value) state.only.push(Number(list.value));
      redraw();
    };
    label.append(`${page.layers[place]!.doc} `, list);
    holder.append(label);
  }
}
