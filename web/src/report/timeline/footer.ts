// What stands below the rows: an event's details, or the breakdown of a selected range.

import { amount, count, moment, percent } from "../../shared/format";
import { copyButton, h } from "../dom";
import type { Breakdown } from "./breakdown";
import type { Model } from "./model";

export interface Jumps {
  select(event: number): void;
  step(direction: 1 | -1): void;
  zoomTo(from: number, to: number): void;
}

export function details(model: Model, event: number, launched: number[], jumps: Jumps): HTMLElement {
  const track = model.block.tracks[model.lanes[model.laneIndex(event)]!.track]!;
  const name = model.fullName(event);
  const n = model.eventsOf(event);
  const facts: [string, string][] = [
    ["start", moment(model.start[event]!)],
    [n > 1 ? "span" : "duration", amount("ns", model.length(event))],
    ["what", model.block.classes[model.cls[event]!] ?? ""],
    ["where", `${track.group} · ${track.label}`],
  ];
  if (n > 1) facts.push(["stands for", `${count(n)} events, ${amount("ns", model.busy![event]!)} in all; the name is the first one's`]);
  const longer: HTMLElement[] = [];
  for (const line of (model.block.details[model.detail[event]!] ?? "").split("\n").filter(Boolean)) {
    const at = line.indexOf(": ");
    const [label, text] = [line.slice(0, at), line.slice(at + 2)];
    if (text.length > 80) longer.push(h("details", {}, h("summary", {}, label), h("pre", { tabindex: 0 }, text.replaceAll(";", "\n"))));
    else facts.push([label, text]);
  }
  const buttons: HTMLElement[] = [
    button("‹ previous", "the same name, earlier (P)", () => jumps.step(-1)),
    button("next ›", "the same name, later (N)", () => jumps.step(1)),
    button("zoom to it", "F", () => jumps.zoomTo(model.start[event]!, model.end[event]!)),
  ];
  const call = model.link[event]! - 1;
  if (call >= 0) buttons.push(button(`launched by ${model.label(call)}`, "go to the call", () => jumps.select(call)));
  if (launched.length) {
    buttons.push(button(
      launched.length === 1 ? `launches ${model.label(launched[0]!)}` : `launches ${count(launched.length)}, first ${model.label(launched[0]!)}`,
      "go to the device operation", () => jumps.select(launched[0]!),
    ));
  }
  const around = model.around(call >= 0 ? call : event);
  const chain = around.length
    ? h("p", { class: "chain" }, call >= 0 ? "called in " : "in ",
      ...around.slice(0, 12).flatMap((i) => [button(model.label(i), model.fullName(i).slice(0, 500), () => jumps.select(i), "link"), " ‹ "]).slice(0, -1))
    : null;
  return h("div", { class: "event" },
    h("p", { class: "name" }, name.length > 400 ? `${name.slice(0, 400)}…` : name, " ", copyButton(() => name, "Copy name", "Name")),
    h("dl", {}, ...facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))),
    h("div", { class: "buttons" }, ...buttons), chain,
    name.length > 400 ? h("details", {}, h("summary", {}, `whole name, ${count(name.length)} characters`), h("pre", { tabindex: 0 }, name)) : null,
    ...longer);
}

export function rangeBreakdown(model: Model, range: [number, number], found: Breakdown, zoom: () => void, clear: () => void): HTMLElement {
  const [from, to] = range;
  const whole = to - from;
  const rows = found.devices.map((d) => h("tr", {},
    h("th", { scope: "row" }, `rank ${d.rank} · GPU ${d.device}`),
    ...[d.compute, d.comm, d.copy, d.idle].map((v) => h("td", { class: "number" }, amount("ns", v), h("small", {}, percent(v, whole))))));
  const names = (title: string, list: Breakdown["deviceNames"]) => list.length
    ? h("div", {}, h("h4", {}, title), h("ol", {}, ...list.map((n) => h("li", {},
      h("span", { class: "grow", title: (model.block.names[n.name] ?? "").slice(0, 500) }, (model.block.labels[n.name] ?? "").slice(0, 60)),
      h("span", {}, `${count(n.count)} × `), h("b", {}, amount("ns", n.time))))))
    : null;
  return h("div", { class: "range" },
    h("p", { class: "name" }, `${amount("ns", whole)} selected, ${moment(from)} to ${moment(to)} `,
      button("zoom to it", "F", zoom), button("clear", "Escape", clear)),
    found.exact ? null : h("p", { class: "note" }, "Short events stand in marks here: sums count a mark's whole span."),
    rows.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Breakdown of the selection" }, h("table", {},
      h("thead", {}, h("tr", {}, h("td"), ...["compute", "exposed communication", "exposed copies", "idle"].map((t) => h("th", { scope: "col", class: "number" }, t)))),
      h("tbody", {}, ...rows))) : null,
    h("div", { class: "names" }, names("On the devices", found.deviceNames), names("On the host, callees included", found.hostNames)));
}

function button(text: string, title: string, act: () => void, kind = "small"): HTMLButtonElement {
  const element = h("button", { type: "button", class: kind, title }, text.length > 70 ? `${text.slice(0, 69)}…` : text);
  element.onclick = act;
  return element;
}
