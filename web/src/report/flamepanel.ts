// The flame graph inside the report: the same view as its own page has.

import { type Page, unpack } from "../flame/data";
import { controls } from "../flame/controls";
import { makeParts } from "../flame/parts";
import { type Around, remembered } from "../flame/state";
import { View } from "../flame/view";

export function flame(packed: Page, listens: () => boolean): HTMLElement {
  const page = unpack(packed);
  const host = makeParts(page.notes);
  const around: Around = {
    part: <T extends HTMLElement>(id: string) => host.querySelector(`#${id}`) as T,
    remember: () => undefined,
    listens,
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
  window.addEventListener("sightline-theme", () => { if (width) view.draw(); });
  return host;
}
