// The elements that a flame graph is made of, in its own page and in the report.

import { h } from "../shared/dom";

export function makeParts(notes: string[]): HTMLElement {
  const check = (id: string, text: string, title = "") =>
    h("label", { title }, h("input", { id, type: "checkbox" }), ` ${text}`);
  const order = h("select", { id: "order" }, h("option", { value: "how" }, "how: who calls what"),
    h("option", { value: "why" }, "why: reason first"),
    h("option", { value: "function" }, "by function: callers and callees"));
  return h("div", { class: "flame" },
    h("p", { id: "grades", class: "note" }), h("p", { id: "notes", class: "note" }, notes.join(" ")),
    h("div", { class: "controls" },
      h("label", {}, "show ", h("select", { id: "weight" })), h("label", {}, "order ", order),
      h("label", {}, "search ", h("input", { id: "search", type: "search", placeholder: "name or expression" })),
      h("output", { id: "found", for: "search" }),
      h("button", { id: "reset", type: "button" }, "Reset zoom"),
      check("split", "split instances", "Show each rank, thread, step and layer separately"),
      h("details", { class: "menu" }, h("summary", {}, "Layers"), h("div", { id: "layers" })),
      h("details", { class: "menu" }, h("summary", {}, "View"), h("div", {},
        check("upward", "root at the bottom"), check("merge", "merge recursion"), check("safe", "color-blind safe"))),
      h("span", { id: "filters" }), h("span", { id: "picture" })),
    h("div", { id: "crumbs", role: "navigation", "aria-label": "zoomed into" }),
    h("div", { id: "chart" }),
    h("div", { id: "functions", class: "functions", hidden: true },
      h("div", { id: "function-table", class: "scroll", tabindex: 0, role: "region", "aria-label": "Functions" }),
      h("div", {}, h("h3", { id: "function-name" }), h("h4", {}, "Callers"), h("div", { id: "callers" }),
        h("h4", {}, "Callees"), h("div", { id: "callees" }))),
    h("ul", { id: "legend", "aria-label": "layers by color" }),
    h("div", { id: "details", role: "status", "aria-live": "polite" }));
}
