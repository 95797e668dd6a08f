// The findings as cards: what it costs, what is gained, evidence, fix, how to verify, where.

import { amount, cell, share } from "../shared/format";
import { sparkline } from "./charts";
import type { Card } from "./data";
import { breakLong, type Child, copyButton, h, keepUnits } from "../shared/dom";

// Facts beside the answer; the line of code is mostly among the last of the first few.
const SHOWN = 4;

export type ShowFinding = (place: number) => void;

/** What leads, then what gains something as numbered cards, the rest below them as remarks. */
export function cards(list: Card[], show: ShowFinding): HTMLElement {
  if (!list.length) return h("p", { class: "note" }, "No rule found a problem.");
  const items = list.map((card, place) => ({ card, item: h("li", {}, one(card, place, show)) }));
  const [leads, gains, remarks] = (["leads", "gains", "remarks"] as const).map((wanted) => items.filter(({ card }) => part(card) === wanted).map(({ item }) => item));
  return h("div", {}, leads!.length ? h("section", { class: "remarks leads" }, h("ul", { class: "cards" }, ...leads!)) : null,
    gains!.length ? h("ol", { class: "cards" }, ...gains!) : null,
    remarks!.length ? h("section", { class: "remarks" }, h("h3", {}, leads!.length || gains!.length ? "Also noticed" : "Noticed (no estimate of a gain)"),
      h("ul", { class: "cards" }, ...remarks!)) : null);
}

function part(card: Card): "leads" | "gains" | "remarks" {
  return card.leads ? "leads" : card.gain_ns || card.gain_bytes || card.gain_j ? "gains" : "remarks";
}

function one(card: Card, place: number, show: ShowFinding): HTMLElement {
  const figures: Child[] = [];
  if (card.cost_ns !== null) figures.push(figure("costs", timeAndShare(card.cost_ns, card.cost_pct), card.cost_pct === null ? "" : `of ${card.of}`));
  if (card.gain_ns) figures.push(saving(card, card.gain_ns));
  if (card.cost_bytes !== null) figures.push(figure("takes", sizeAndShare(card.cost_bytes, card.cost_pct), card.cost_pct === null ? "" : `of ${card.of}`));
  if (card.gain_bytes) figures.push(figure("could free up to", sizeAndShare(card.gain_bytes, card.gain_pct), ""));
  if (card.cost_j !== null) figures.push(figure("takes", withShare(cell("J", card.cost_j), card.cost_pct), card.cost_pct === null ? "" : `of ${card.of}`));
  if (card.gain_j) figures.push(figure("could save up to", withShare(cell("J", card.gain_j), card.gain_pct), ""));
  figures.push(figure("confidence", card.confidence, ""));
  const where = card.where.count
    ? h("div", { class: "where" },
      sparkline(card.where.spark, "where in the run it happens, first event to last"),
      card.where.drawn ? button(card, place, show) : null)
    : null;
  return h("article", { class: `card ${card.severity}`, id: `finding-${place}` },
    h("header", {},
      h("h3", {}, card.title),
      h("span", { class: `tag ${card.severity}` }, card.severity),
      h("dl", { class: "figures" }, ...figures)),
    h("p", {}, ...breakLong(card.summary)),
    where,
    card.cause && !card.summary.toLowerCase().startsWith(card.cause.toLowerCase()) ? h("p", { class: "soft" }, card.cause) : null,
    card.evidence.length ? h("ul", { class: "evidence" }, ...card.evidence.slice(0, SHOWN).map((text) => h("li", {}, ...breakLong(text)))) : null,
    line("Fix", card.fix), line("Check", card.verify, true),
    h("details", {},
      h("summary", {}, "More evidence"),
      h("ul", {}, ...card.evidence.slice(SHOWN).map((text) => h("li", {}, ...breakLong(text)))),
      card.method ? h("p", { class: "soft" }, `How the gain was found: ${card.method}.`) : null,
      ...card.limits.map((text) => h("p", { class: "soft" }, `Limit: ${text}`)),
      ...card.sources.map((text) => h("p", { class: "soft" }, `Source: ${text}`)),
      command(card.command), command(card.again)));
}

// As sightline/answer/price_words.py: one figure is enough where gain and cost are the same.
function saving(card: Card, gain: number): HTMLElement {
  const saved = timeAndShare(gain, card.gain_pct);
  const isAll = card.cost_ns !== null && saved === timeAndShare(card.cost_ns, card.cost_pct);
  return isAll ? figure("could save", "all of it", "") : figure("could save up to", saved, "");
}

function button(card: Card, place: number, show: ShowFinding): HTMLElement {
  const n = card.where.count;
  const text = n === 1 ? "Show in the timeline" : `Show all ${n.toLocaleString("en-US")} in the timeline`;
  const element = h("button", { type: "button", class: "primary" }, text);
  element.onclick = () => show(place);
  return element;
}

function timeAndShare(ns: number, pct: number | null): string { return withShare(amount("ns", ns), pct); }

function sizeAndShare(size: number, pct: number | null): string { return withShare(amount("bytes", size), pct); }

function withShare(text: string, pct: number | null): string { return pct === null ? text : `${text} (${share(pct)})`; }

function figure(label: string, value: string, after: string): HTMLElement {
  return h("div", {}, h("dt", {}, label), h("dd", {}, keepUnits(value)), after ? h("dd", { class: "of" }, after) : null);
}

function line(label: string, text: string, copyable = false): HTMLElement | null {
  if (!text) return null;
  return h("p", { class: "line" }, h("b", {}, label), h("span", {}, ...breakLong(text)),
    copyable ? copyButton(() => text, "Copy", label) : null);
}

function command(text: string): HTMLElement {
  return h("p", { class: "command" }, h("code", {}, text), copyButton(() => text, "Copy", "Command"));
}
