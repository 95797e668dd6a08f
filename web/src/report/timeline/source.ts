// Where the timeline's events come from: the page itself, or the server that the page came from.
// What is drawn is always a Model; what is asked about single events comes as promises.

import type { Packed } from "../columns";
import type { TimelineBlock } from "../data";
import { type Breakdown, breakdown } from "./breakdown";
import { LAST_OF_DEVICE, OTHER } from "./looks";
import { type Ev, Model, lanesOf } from "./model";
import { type Walk, unpackMark, unpackPath } from "./places";
import { unpackEvents } from "./unpack";

/** `details` is a line a fact; `around` are the ranges around it on its thread, the innermost first. */
export interface Facts { details: string; call: Ev | null; launched: Ev[]; around: Ev[] }

/** How long the operations of a name took, counted in `bins` equal steps of the logarithm. */
export interface Instances { count: number; low: number; high: number; bins: number[]; longest: Ev | null; merged: number }

/** Names by their places, and what they are called for: a searched text, or one name. */
export interface Wanted { names: Uint8Array; text?: string; name?: number }

export interface Source {
  readonly block: TimelineBlock;
  /** What there is to draw now. */
  readonly model: Model;
  /** Where findings are, and the critical path with the places of its events plus 1. */
  readonly walks: Walk[];
  readonly path: { walk: Walk; at: Float64Array } | null;
  /** Called when `model` is another, or with the problem where it could not become one. */
  arrived: (problem?: string) => void;
  /** The view shows these lanes between two moments: whoever has not enough to draw it gets it. */
  want(from: number, to: number, perPixel: number, lanes: number[]): void;
  event(id: number): Promise<Ev | null>;
  facts(event: Ev): Promise<Facts>;
  next(event: Ev | null, wanted: Wanted, direction: 1 | -1): Promise<Ev | null>;
  search(text: string): { names: Uint8Array; events: number; time: number };
  breakdown(from: number, to: number): Promise<Breakdown>;
  instances(name: string): Promise<Instances | null>;
  /** How busy the run is in equal slices of its time: a list for each class. */
  overview(length: number): ArrayLike<number>[];
}

const BINS = 40, SLICES = 600, MOST_LAUNCHED = 200;

/** Names that hold a text. */
export function named(names: string[], text: string): Uint8Array {
  const wanted = text.toLowerCase();
  return Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
}

/** Counts of lengths in equal steps of the logarithm, of 2 % or more. */
export function binned(lengths: Float64Array): { low: number; high: number; bins: number[] } {
  if (!lengths.length) return { low: 1, high: 2, bins: [] };
  let low = Infinity, high = 0;
  for (const v of lengths) { low = Math.min(low, v); high = Math.max(high, v); }
  low = Math.max(low, 1);
  high = Math.max(high, low + 1);
  const n = Math.min(BINS, Math.max(1, Math.ceil(Math.log(high / low) / Math.log(1.02))));
  const bins = new Array<number>(n).fill(0);
  for (const v of lengths) {
    const at = Math.floor((n * Math.log(Math.max(v, low) / low)) / Math.log(high / low));
    bins[Math.min(n - 1, Math.max(0, at))]!++;
  }
  return { low, high, bins };
}

/** All events are in the page. */
export class Embedded implements Source {
  arrived: Source["arrived"] = () => undefined;

  private constructor(readonly model: Model, readonly walks: Walk[], readonly path: Source["path"]) {}

  static async load(block: TimelineBlock, packed: Packed): Promise<Embedded> {
    const { n } = block.lanes;
    const model = new Model(block, n, await unpackEvents(block, lanesOf(block, n), packed));
    const walks = await Promise.all(block.marks.map((mark) => unpackMark(mark, packed, model)));
    return new Embedded(model, walks, block.path ? await unpackPath(block.path, packed) : null);
  }

  get block(): TimelineBlock { return this.model.block; }

  want(): void { /* everything is here */ }

  event(id: number): Promise<Ev | null> {
    return Promise.resolve(id >= 0 && id < this.model.size ? this.model.ev(id) : null);
  }

  facts(event: Ev): Promise<Facts> {
    const { model } = this;
    const call = model.link[event.id]! - 1;
    const launched = event.cls > LAST_OF_DEVICE ? model.launchedBy(event.id, MOST_LAUNCHED) : [];
    return Promise.resolve({
      details: this.block.details[model.detail[event.id]!] ?? "",
      call: call >= 0 ? model.ev(call) : null,
      launched: launched.map((i) => model.ev(i)),
      // Of a message the ranges around the call that receives it are asked for, not the sender's.
      around: model.around(call >= 0 && (event.cls <= LAST_OF_DEVICE || event.cls > OTHER) ? call : event.id).map((i) => model.ev(i)),
    });
  }

  next(event: Ev | null, wanted: Wanted, direction: 1 | -1): Promise<Ev | null> {
    const found = this.model.next(event?.id ?? -1, wanted.names, direction);
    return Promise.resolve(found >= 0 ? this.model.ev(found) : null);
  }

  search(text: string): { names: Uint8Array; events: number; time: number } {
    const names = named(this.block.names, text);
    return { names, ...this.model.sum(names) };
  }

  breakdown(from: number, to: number): Promise<Breakdown> {
    return Promise.resolve(breakdown(this.model, from, to));
  }

  instances(name: string): Promise<Instances | null> {
    const { model } = this;
    const place = this.block.names.indexOf(name);
    if (place < 0) return Promise.resolve(null);
    const lengths: number[] = [];
    let longest = -1, merged = 0;
    for (let i = 0; i < model.size; i++) {
      if (model.name[i] !== place || model.cls[i]! > LAST_OF_DEVICE) continue;
      if (model.eventsOf(i) > 1) { merged++; continue; }
      lengths.push(model.length(i));
      if (longest < 0 || model.length(i) > model.length(longest)) longest = i;
    }
    return Promise.resolve({
      count: lengths.length, ...binned(Float64Array.from(lengths)), merged,
      longest: longest < 0 ? null : model.ev(longest),
    });
  }

  overview(length: number): Float64Array[] {
    const { model } = this;
    const streams = model.lanes.filter((l) => this.block.tracks[l.track]!.kind === "stream");
    const lanes = streams.length ? streams : model.lanes.filter((l) => l.lane === 0);
    const rows = new Set(lanes.map((l) => `${this.block.tracks[l.track]!.rank} ${this.block.tracks[l.track]!.device}`)).size;
    const busy = this.block.classes.map(() => new Float64Array(SLICES));
    const width = Math.max(1, length) / SLICES;
    for (const lane of lanes) {
      for (let i = lane.from; i < lane.to; i++) {
        const values = busy[model.cls[i]!]!;
        const first = Math.min(SLICES - 1, Math.floor(model.start[i]! / width));
        const last = Math.min(SLICES - 1, Math.floor(model.end[i]! / width));
        for (let s = first; s <= last; s++) {
          values[s]! += Math.min(model.end[i]!, (s + 1) * width) - Math.max(model.start[i]!, s * width);
        }
      }
    }
    for (const values of busy) for (let s = 0; s < SLICES; s++) values[s]! /= width * Math.max(1, rows);
    return busy;
  }
}
