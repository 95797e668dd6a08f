// What is under the pointer, and what its tip says.

import { amount, cell, count, moment, percent } from "../../shared/format";
import type { LinesBlock } from "../data";
import type { Model } from "./model";

/** `event` is -1 for a mark of several that the page drew as one: the places first to last. */
export interface Hit { event: number; first: number; last: number }

export function hitAt(model: Model, row: number, at: number, perPixel: number): Hit | null {
  let found: Hit | null = null;
  model.visit(model.lanes[row]!, at - 4 * perPixel, at + 4 * perPixel, perPixel, (i) => {
    const near = model.start[i]! <= at + perPixel && model.end[i]! >= at - perPixel;
    if (near && !found) found = { event: i, first: i, last: i + 1 };
  }, (first, last) => {
    if (model.start[first]! <= at + perPixel && model.end[last - 1]! >= at - 2 * perPixel) found ??= { event: -1, first, last };
  });
  return found;
}

export function tipText(model: Model, hit: Hit): string {
  const { first, last } = hit;
  const text = hit.event >= 0 && model.eventsOf(hit.event) === 1
    ? `${model.label(hit.event)}  ${amount("ns", model.length(hit.event))}`
    : `${count(model.events(first, last))} events, ${amount("ns", model.time(first, last))} ` +
      `(${percent(model.time(first, last), model.end[last - 1]! - model.start[first]!)} of their span); click to zoom`;
  return text.slice(0, 200);
}

/** What a counter was at a moment: each value holds until the next. */
export function counterText(block: LinesBlock, at: number): string {
  return block.series.map((series) => {
    let low = 0, high = series.t.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (series.t[middle]! <= at) low = middle + 1;
      else high = middle;
    }
    const i = Math.max(0, low - 1);
    const least = cell(block.unit, series.low[i]!), most = cell(block.unit, series.high[i]!);
    return `${series.label} ${least === most ? most : `${least} to ${most}`}, recorded at ${moment(series.t[i]!)}`;
  }).join(" · ").slice(0, 200);
}
