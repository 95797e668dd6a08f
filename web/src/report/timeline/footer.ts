// What stands below the rows: an event's details, or the breakdown of a selected range.

import { amount, count, moment, percent } from "../../shared/format";
import type { TimelineBlock } from "../data";
import { breakLong, copyButton, h } from "../../shared/dom";
import type { Breakdown } from "./breakdown";
import { LAST_OF_DEVICE, OTHER } from "./looks";
import type { Ev } from "./model";
import type { Walk } from "./places";
import type { Facts } from "./source";

export interface Jumps {
  select(event: Ev): void;
  step(direction: 1 | -1): void;
  zoomTo(from: number, to: number): void;
}

/** An event; `facts` come later where a server has them. */
export function details(block: TimelineBlock, event: Ev, found: Facts | null, jumps: Jumps): HTMLElement {
  const track = block.tracks[block.lanes.track[event.lane]!]!;
  const label = (e: Ev) => block.labels[e.name] ?? "";
  const full = (e: Ev) => block.names[e.name] ?? "";
  const name = full(event);
  const n = event.count;
  const facts: [string, string][] = [
    ["start", moment(event.start)],
    [n > 1 ? "span" : "duration", amount("ns", event.end - event.start)],
    ["kind", block.classes[event.cls] ?? ""],
    ["where", `${track.group} · ${track.label}`],
  ];
  if (n > 1) facts.push(["merged", `${count(n)} events, ${amount("ns", event.busy)} in total; the name is that of the first`]);
  const longer: HTMLElement[] = [];
  for (const line of (found?.details ?? "").split("\n").filter(Boolean)) {
    const at = line.indexOf(": ");
    const [what, text] = [line.slice(0, at), line.slice(at + 2)];
    if (text.length > 80) longer.push(h("details", {}, h("summary", {}, what), h("pre", { tabindex: 0 }, text.replaceAll(";", "\n"))));
    else facts.push([what, text]);
  }
  const buttons: HTMLElement[] = [
    button("‹ previous", "the same name, earlier (P)", () => jumps.step(-1)),
    button("next ›", "the same name, later (N)", () => jumps.step(1)),
    button("zoom to it", "F", () => jumps.zoomTo(event.start, event.end)),
  ];
  const call = found?.call ?? null, launched = found?.launched ?? [], around = found?.around ?? [];
  // States of threads are linked by wake-ups, calls of MPI by messages.
  const isState = event.cls > OTHER, isHost = event.cls > LAST_OF_DEVICE && !isState;
  if (call) {
    const what = isState ? "woken by a thread that was" : isHost ? "receives from" : "launched by";
    buttons.push(button(`${what} ${label(call)}`, "go to the call", () => jumps.select(call)));
  }
  const first = launched[0];
  if (first) {
    const isSent = isHost && first.cls > LAST_OF_DEVICE, verb = isState ? "wakes" : isSent ? "sends to" : "launches";
    buttons.push(button(
      launched.length === 1 ? `${verb} ${label(first)}` : `${verb} ${count(launched.length)}, first ${label(first)}`,
      isState ? "go to the state of the thread that it woke" : isSent ? "go to the call that receives it" : "go to the device operation",
      () => jumps.select(first),
    ));
  }
  const chain = around.length
    ? h("p", { class: "chain" }, call && !isHost ? "called in " : "in ",
      ...around.slice(0, 12).flatMap((e) => [button(label(e), full(e).slice(0, 500), () => jumps.select(e), "link"), " ‹ "]).slice(0, -1))
    : null;
  return h("div", { class: "event" },
    h("p", { class: "name" }, name.length > 400 ? `${name.slice(0, 400)}…` : name, " ", copyButton(() => name, "Copy name", "Name")),
    h("dl", {}, ...facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))),
    h("div", { class: "buttons" }, ...buttons), chain,
    name.length > 400 ? h("details", {}, h("summary", {}, `whole name, ${count(name.length)} characters`), h("pre", { tabindex: 0 }, name)) : null,
    ...longer);
}

/** A selected range; `found` comes later where a server has it. */
export function rangeBreakdown(block: TimelineBlock, range: [number, number], found: Breakdown | null, zoom: () => void, clear: () => void): HTMLElement {
  const [from, to] = range;
  const whole = to - from;
  const unknown = found?.devices.some((d) => d.unknown > 0);
  const rows = (found?.devices ?? []).map((d) => h("tr", {},
    h("th", { scope: "row" }, `rank ${d.rank} · GPU ${d.device}`),
    ...[d.compute, d.comm, d.copy, ...(unknown ? [d.unknown] : []), d.idle].map((v) => h("td", { class: "number" }, amount("ns", v), h("small", {}, percent(v, whole))))));
  const names = (title: string, list: Breakdown["deviceNames"]) => list.length
    ? h("div", {}, h("h4", {}, title), h("ol", {}, ...list.map((n) => h("li", {},
      h("span", { class: "grow", title: (block.names[n.name] ?? "").slice(0, 500) }, (block.labels[n.name] ?? "").slice(0, 60)),
      h("span", {}, `${count(n.count)} × `), h("b", {}, amount("ns", n.time))))))
    : null;
  return h("div", { class: "range" },
    h("p", { class: "name" }, `${amount("ns", whole)} selected, ${moment(from)} to ${moment(to)} `,
      button("zoom to it", "F", zoom), button("clear", "Escape", clear)),
    found === null ? h("p", { class: "note" }, "Computing …") : found.exact ? null : h("p", { class: "note" }, "This page merges short events: sums count the whole span of a merged event."),
    rows.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Breakdown of the selection" }, h("table", {},
      h("thead", {}, h("tr", {}, h("td"), ...["compute", "exposed communication", "exposed copies", ...(unknown ? ["unknown"] : []), "idle"].map((t) => h("th", { scope: "col", class: "number" }, t)))),
      h("tbody", {}, ...rows))) : null,
    h("div", { class: "names" }, names("On the GPU", found?.deviceNames ?? []), names("On the CPU, including callees", found?.hostNames ?? [])));
}

/** What is walked through, and where in it one is: stands beside whatever is selected. */
export function walkPanel(walk: Walk, place: number, go: (place: number) => void, close: () => void): HTMLElement {
  const held = walk.from.length;
  const length = walk.to[place]! - walk.from[place]!, rank = walk.ranks?.[place];
  const where = [walk.label(place), amount("ns", length), `at ${moment(walk.from[place]!)}`, rank === undefined || rank === null ? "" : `rank ${rank}`];
  const move = (text: string, title: string, to: number) => {
    const element = button(text, title, () => go(to));
    element.disabled = to < 0 || to >= held;
    return element;
  };
  return h("section", { class: "walk", "aria-label": walk.title },
    h("p", { class: "name" }, h("b", {}, walk.title)),
    h("div", { class: "buttons" }, move("‹ previous", "P", place - 1),
      h("span", { class: "at" }, `${count(place + 1)} of ${count(held)}`), move("next ›", "N", place + 1),
      button("longest", "the longest of all", () => go(-1)), button("close", "Escape", close)),
    h("p", {}, where.filter(Boolean).join(" · ")),
    walk.count > held ? h("p", { class: "note" }, `The page holds the longest ${count(held)} of ${count(walk.count)}.`) : null,
    h("p", {}, ...breakLong(walk.summary)),
    walk.fix ? h("p", { class: "soft" }, `Fix: ${walk.fix}`) : null);
}

/** What can be done, while nothing is selected. */
export function help(events: number): HTMLElement {
  const finger = h("span", { class: "by-finger" }, "Drag pans, two fingers zoom, a tap shows an event. Events narrower than two pixels are merged until you zoom in.");
  return h("p", { class: "note" },
    `${count(events)} events. `, finger, h("span", { class: "by-key" }, h("kbd", {}, "W"), h("kbd", {}, "S"), " or wheel zoom, ",
    h("kbd", {}, "A"), h("kbd", {}, "D"), " or drag pan, wheel over the labels scrolls, ",
    h("kbd", {}, "Shift"), " drag or drag on the ruler selects a range, click shows an event, ",
    h("kbd", {}, "N"), h("kbd", {}, "P"), " next and previous of its name, or place of a finding, ", h("kbd", {}, "F"),
    " zooms to the selection, ", h("kbd", {}, "0"), " shows all, ", h("kbd", {}, "/"), " searches. Events narrower than two pixels are merged; hover over them to see how many."));
}

function button(text: string, title: string, act: () => void, kind = "small"): HTMLButtonElement {
  const element = h("button", { type: "button", class: kind, title }, text.length > 70 ? `${text.slice(0, 69)}…` : text);
  element.onclick = act;
  return element;
}
