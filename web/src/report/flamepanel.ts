// The flame graph inside the report: the same view as its own page has.

import type { Page } from "../flame/data";
import { controls } from "../flame/controls";
import { type Around, remembered } from "../flame/state";
import { View } from "../flame/view";
import { h } from "./dom";

export function flame(page: Page, listens: () => boolean): HTMLElement {
  const check = (id: string, text: string) =>
    h("label", {}, h("input", { id, type: "checkbox" }), ` ${text}`);
  const order = h("select", { id: "order" }, h("option", { value: "how" }, "how: who calls what"),
    h("option", { value: "why" }, "why: reason first"));
  const host = h("div", { class: "flame" },
    h("p", { id: "grades", class: "note" }), h("p", { id: "notes", class: "note" }, page.notes.join(" ")),
    h("div", { class: "controls" },
      h("label", {}, "show ", h("select", { id: "weight" })), h("label", {}, "order ", order),
      h("label", {}, "search ", h("input", { id: "search", type: "search", placeholder: "name or expression" })),
      h("output", { id: "found", for: "search" }),
      h("button", { id: "reset", type: "button" }, "Reset zoom"),
      h("details", { class: "menu" }, h("summary", {}, "layers"), h("div", { id: "layers" })),
      check("icicle", "icicle"), check("merge", "merge recursion"), check("safe", "colour-blind safe"),
      h("span", { hidden: true }, check("dark", "dark")), h("span", { id: "filters" })),
    h("div", { id: "crumbs", role: "navigation", "aria-label": "zoomed into" }),
    h("div", { id: "chart" }), h("ul", { id: "legend", "aria-label": "layers by colour" }),
    h("div", { id: "details", role: "status", "aria-live": "polite" }));
  const around: Around = {
    part: <T extends HTMLElement>(id: string) => host.querySelector(`#${id}`) as T,
    remember: () => undefined,
    listens,
    dark: () => undefined,
  };
  const state = remembered(page, "");
  // d3-flame-graph needs a width, so it draws when the panel is first shown; and anew on paper.
  const view = new View(page, state, around);
  let width = 0;
  const draw = () => {
    if (!host.clientWidth || width === host.clientWidth) return;
    if (!width) controls(page, state, view, around);
    width = host.clientWidth;
    view.draw();
    host.dataset["ready"] = "yes";
  };
  new ResizeObserver(() => { if (!width) draw(); }).observe(host);
  window.addEventListener("sightline-resize", draw);
  return host;
}
