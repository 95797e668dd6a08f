// Every event of the run, in typed arrays: sorted by track, lane and start. In a lane nothing
// overlaps, so the events of a lane are sorted by their end as well.

import type { TimelineBlock } from "../data";

/** One event, or a mark of several that stand together. `id` is its place among all events. */
export interface Ev {
  id: number; lane: number; start: number; end: number; name: number; cls: number; count: number; busy: number;
}

export interface Lane { track: number; lane: number; from: number; to: number }

/** How many nanoseconds a pixel stands for at the closest zoom. */
export const FULL_ZOOM = 0.05;
/** Events narrower than this many pixels that start in the same ones are drawn as one mark. */
export const COLUMN = 2;

/** The events' columns. `ids`, `count` and `busy` are absent where each place is one event. */
export interface Columns {
  start: Float64Array; end: Float64Array; name: Uint32Array; cls: Uint8Array;
  detail?: Uint32Array; link?: Uint32Array; ids?: Float64Array; count?: Uint32Array; busy?: Float64Array;
}

export function lanesOf(block: TimelineBlock, sizes: number[]): Lane[] {
  let from = 0;
  return sizes.map((size, i) => ({ track: block.lanes.track[i]!, lane: block.lanes.lane[i]!, from, to: (from += size) }));
}

export class Model {
  readonly lanes: Lane[];
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly name: Uint32Array;
  readonly cls: Uint8Array;
  /** Places in the block's `details`, and of the launching call plus 1; of embedded events only. */
  readonly detail: Uint32Array;
  readonly link: Uint32Array;
  /** Events that a mark of the data stands for, and their time; only where the data merged some. */
  readonly count: Uint32Array | undefined;
  readonly busy: Float64Array | undefined;
  private readonly ids: Float64Array | undefined;
  /** Sum of the lengths of all events before each: a run of events is a difference of two. */
  private readonly before: Float64Array;
  private readonly laneOf: Uint32Array;

  /** `sizes`: how many events of the columns each lane of the block has, in order. */
  constructor(readonly block: TimelineBlock, sizes: number[], columns: Columns) {
    const n = columns.start.length;
    this.start = columns.start;
    this.end = columns.end;
    this.name = columns.name;
    this.cls = columns.cls;
    this.detail = columns.detail ?? new Uint32Array(0);
    this.link = columns.link ?? new Uint32Array(0);
    this.ids = columns.ids;
    this.count = columns.count;
    this.busy = columns.busy;
    this.before = new Float64Array(n + 1);
    this.laneOf = new Uint32Array(n);
    this.lanes = lanesOf(block, sizes);
    this.lanes.forEach((lane, i) => this.laneOf.fill(i, lane.from, lane.to));
    if ((this.lanes[this.lanes.length - 1]?.to ?? 0) !== n) throw new Error("the timeline's lanes and events do not agree");
    let sum = 0;
    for (let i = 0; i < n; i++) {
      sum += this.busy ? this.busy[i]! : this.end[i]! - this.start[i]!;
      this.before[i + 1] = sum;
    }
  }

  /** The block's lanes without events. */
  static empty(block: TimelineBlock): Model {
    const none = new Float64Array(0);
    return new Model(block, block.lanes.n.map(() => 0), { start: none, end: none, name: new Uint32Array(0), cls: new Uint8Array(0) });
  }

  /** A place as an event by itself, which outlives this model. */
  ev(i: number): Ev {
    return {
      id: this.ids ? this.ids[i]! : i, lane: this.laneOf[i]!, start: this.start[i]!, end: this.end[i]!,
      name: this.name[i]!, cls: this.cls[i]!, count: this.eventsOf(i), busy: this.busy ? this.busy[i]! : this.length(i),
    };
  }

  get size(): number { return this.start.length; }
  laneIndex(event: number): number { return this.laneOf[event]!; }
  length(event: number): number { return this.end[event]! - this.start[event]!; }
  label(event: number): string { return this.block.labels[this.name[event]!] ?? ""; }
  fullName(event: number): string { return this.block.names[this.name[event]!] ?? ""; }
  /** How many events a place stands for: 1, or more where the data merged some. */
  eventsOf(event: number): number { return this.count ? this.count[event]! : 1; }

  events(from: number, to: number): number {
    if (!this.count) return to - from;
    let n = 0;
    for (let i = from; i < to; i++) n += this.count[i]!;
    return n;
  }

  /** Time of the events from..to, which do not overlap. */
  time(from: number, to: number): number { return this.before[to]! - this.before[from]!; }

  /** The first event of from..to that starts at or after a moment. */
  startsAt(moment: number, from: number, to: number): number {
    // Gallop first: the answer is mostly near.
    let step = 1, low = from;
    while (low + step < to && this.start[low + step - 1]! < moment) { low += step; step *= 2; }
    let high = Math.min(low + step, to);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle]! < moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The first event of a lane that ends after a moment, or is at it. */
  endsAfter(moment: number, lane: Lane): number {
    let low = lane.from, high = lane.to;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle]! < moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Walk over what a lane shows between two moments: single events, and marks of several.
   *
   * The cost is that of the pixels, not of the events: each mark is found by search. Columns are
   * fixed in time, so that nothing flickers while it moves.
   */
  visit(
    lane: Lane, from: number, to: number, nsPerPixel: number,
    single: (event: number) => void, several: (first: number, last: number) => void,
  ): void {
    const wide = COLUMN * nsPerPixel;
    let i = this.endsAfter(from, lane);
    while (i < lane.to && this.start[i]! <= to) {
      if (this.end[i]! - this.start[i]! >= wide) { single(i++); continue; }
      const edge = (Math.floor(this.start[i]! / wide) + 1) * wide;
      let next = this.startsAt(edge, i + 1, lane.to);
      // Only the last can be wide: it reaches beyond the column.
      if (next - 1 > i && this.end[next - 1]! - this.start[next - 1]! >= wide) next--;
      if (next === i + 1) single(i);
      else several(i, next);
      i = next;
    }
  }

  /** What is drawn at the closest zoom over the whole run: single events, and marks of several. */
  fullZoomCount(): { single: number; several: number; stated: number } {
    let single = 0, several = 0, stated = 0;
    for (const lane of this.lanes) {
      this.visit(lane, -Infinity, Infinity, FULL_ZOOM,
        (event) => { single++; stated += this.eventsOf(event); },
        (first, last) => { several += last - first; stated += this.events(first, last); });
    }
    return { single, several, stated };
  }

  /** The event of a lane at a moment, with some slack on both sides. */
  at(lane: Lane, moment: number, slack: number): number {
    const i = this.endsAfter(moment - slack, lane);
    if (i >= lane.to || this.start[i]! > moment + slack) return -1;
    // Of two that are near, the one that is under the pointer.
    return i + 1 < lane.to && this.end[i]! < moment && this.start[i + 1]! <= moment ? i + 1 : i;
  }

  /** The next event in time, before or after one, for which `wanted` holds of its name. */
  next(event: number, wanted: Uint8Array, direction: 1 | -1): number {
    const t = event < 0 ? (direction > 0 ? -Infinity : Infinity) : this.start[event]!;
    let best = -1;
    for (let i = 0; i < this.size; i++) {
      if (!wanted[this.name[i]!]) continue;
      const s = this.start[i]!;
      const after = direction > 0 ? s > t || (s === t && i > event) : s < t || (s === t && i < event);
      if (!after) continue;
      if (best < 0) { best = i; continue; }
      const b = this.start[best]!;
      // Equal starts: in order of place, as `after` has it.
      if (direction > 0 ? s < b : s > b || (s === b && i > best)) best = i;
    }
    return best;
  }

  /** How many events have one of these names, and how much time they are. */
  sum(names: Uint8Array): { events: number; time: number } {
    let events = 0, time = 0;
    for (let i = 0; i < this.size; i++) {
      if (!names[this.name[i]!]) continue;
      events += this.eventsOf(i);
      time += this.busy ? this.busy[i]! : this.end[i]! - this.start[i]!;
    }
    return { events, time };
  }

  /** Device operations that a call launched. */
  launchedBy(event: number, limit: number): number[] {
    const found: number[] = [];
    for (let i = 0; i < this.size && found.length < limit; i++) {
      if (this.link[i] === event + 1) found.push(i);
    }
    return found;
  }

  /** The ranges around an event on its thread, the innermost first. */
  around(event: number): number[] {
    const own = this.lanes[this.laneOf[event]!]!;
    const found: number[] = [];
    for (let l = this.laneOf[event]! - 1; l >= 0 && this.lanes[l]!.track === own.track; l--) {
      const i = this.at(this.lanes[l]!, this.start[event]!, 0);
      if (i >= 0 && this.start[i]! <= this.start[event]! && this.end[i]! >= this.end[event]!) found.push(i);
    }
    return found;
  }
}
