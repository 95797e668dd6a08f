// Which rows stand where: what is pinned, headings of ranks, streams, threads with their nested ops,
// memory and counters.

import type { LinesBlock, TimelineBlock } from "../data";

/** `key` is a track's place, or -1 - place of a counter. `lanes`: how many rows the track has in all. */
export type Row =
  | { kind: "group"; y: number; h: number; group: string; open: boolean }
  | { kind: "lane"; y: number; h: number; key: number; lane: number; first: boolean; lanes: number }
  | { kind: "counter"; y: number; h: number; key: number; counter: LinesBlock };

const GROUP = 20, STREAM = 18, THREAD = 15, COUNTER = 42, GAP = 5;
const PINNED = "Pinned";

export class Layout {
  rows: Row[] = [];
  height = 0;
  /** What is pinned, or else the rows of the first rank's devices, stay in view while the others
   * scroll: so high they are, or 0 where that is too much of the view. */
  pinned = 0;
  private staying = 0;
  /** Where each lane stands; -1 if it does not. */
  laneY: Float64Array;
  private readonly lanesOf = new Map<number, number[]>();
  readonly groups: string[];
  readonly closed = new Set<string>();
  /** Tracks of which only the outermost row is drawn. */
  readonly flat = new Set<number>();
  readonly pins = new Set<number>();

  constructor(private readonly block: TimelineBlock) {
    this.groups = [...new Set([...block.tracks.map((t) => t.group), ...block.counters.map((c) => c.group ?? "Counters")])];
    block.lanes.track.forEach((track, lane) => {
      const lanes = this.lanesOf.get(track);
      if (lanes) lanes.push(lane);
      else this.lanesOf.set(track, [lane]);
    });
    this.laneY = new Float64Array(block.lanes.track.length);
    // With many ranks, the threads of the first are open, the others' in their outermost row.
    const ranks = [...new Set(block.tracks.map((t) => t.rank))];
    block.tracks.forEach((track, i) => {
      if (track.kind === "thread" && ranks.length > 1 && track.rank !== ranks[0]) this.flat.add(i);
    });
    this.build();
  }

  /** The keys of a group's rows, in their order. */
  keysOf(group: string): number[] {
    const tracks = [...this.lanesOf.keys()].filter((track) => this.block.tracks[track]!.group === group);
    return [...tracks, ...this.block.counters.flatMap((c, i) => ((c.group ?? "Counters") === group ? [-1 - i] : []))];
  }

  nameOf(key: number): string {
    return key < 0 ? this.block.counters[-1 - key]!.title : this.block.tracks[key]!.label;
  }

  build(): void {
    this.rows = [];
    this.laneY.fill(-1);
    let y = 0;
    const head = (group: string, open: boolean) => {
      this.rows.push({ kind: "group", y, h: GROUP, group, open });
      y += GROUP;
    };
    if (this.pins.size) {
      head(PINNED, true);
      for (const key of this.pins) y = this.put(key, y);
    }
    this.staying = this.pins.size ? y : 0;
    for (const group of this.groups) {
      const keys = this.keysOf(group).filter((key) => !this.pins.has(key));
      if (!this.staying && y && !this.ofDevice(group)) this.staying = y;
      if (!keys.length) continue;
      head(group, !this.closed.has(group));
      if (!this.closed.has(group)) for (const key of keys) y = this.put(key, y);
    }
    this.height = y + 8;
  }

  /** Put a track's or a counter's rows at a height; the height after them. */
  private put(key: number, top: number): number {
    let y = top + GAP;
    if (key < 0) {
      this.rows.push({ kind: "counter", y, h: COUNTER, key, counter: this.block.counters[-1 - key]! });
      return y + COUNTER;
    }
    const lanes = this.lanesOf.get(key)!;
    const h = this.block.tracks[key]!.kind === "thread" ? THREAD : STREAM;
    for (const lane of this.flat.has(key) ? lanes.slice(0, 1) : lanes) {
      this.rows.push({ kind: "lane", y, h, key, lane, first: lane === lanes[0], lanes: lanes.length });
      this.laneY[lane] = y;
      y += h;
    }
    return y;
  }

  private ofDevice(group: string): boolean {
    return this.block.tracks.some((t) => t.group === group && t.kind !== "thread");
  }

  /** Fit to a view of this height. */
  fit(height: number): void { this.pinned = this.staying < (this.pins.size ? 0.7 : 0.4) * height ? this.staying : 0; }
  /** Where a row's y is in a view that is scrolled, and back. */
  toView(y: number, scroll: number): number { return y < this.pinned ? y : y - scroll; }
  fromView(y: number, scroll: number): number { return y < this.pinned ? y : y + scroll; }
  /** Whether a row can be seen: in the pinned part, or below it. */
  seen(row: { y: number; h: number }, scroll: number, height: number): boolean {
    const y = this.toView(row.y, scroll);
    return y + row.h >= (row.y < this.pinned ? 0 : this.pinned) && y <= height;
  }

  /** Close or open a group. What is pinned is let go. */
  toggle(group: string): void {
    if (group === PINNED) this.pins.clear();
    else if (!this.closed.delete(group)) this.closed.add(group);
    this.build();
  }

  /** Close a track with several rows to its outermost one, or open it. */
  fold(key: number): void {
    if (!this.flat.delete(key)) this.flat.add(key);
    this.build();
  }

  /** Close all threads, or open them. */
  foldAll(closed: boolean): void {
    this.block.tracks.forEach((track, key) => {
      if (track.kind !== "thread") return;
      if (closed) this.flat.add(key);
      else this.flat.delete(key);
    });
    this.build();
  }

  pin(key: number): void {
    if (!this.pins.delete(key)) this.pins.add(key);
    this.build();
  }

  /** Make a lane's row visible. */
  reveal(lane: number): void {
    const track = this.block.lanes.track[lane]!;
    this.closed.delete(this.block.tracks[track]!.group);
    this.flat.delete(track);
    this.build();
  }

  /** Lanes that stand between two heights, with some around them. */
  lanesBetween(top: number, bottom: number): number[] {
    const found: number[] = [];
    this.laneY.forEach((y, lane) => { if (y >= 0 && (y < this.pinned || (y > top - 200 && y < bottom + 200))) found.push(lane); });
    return found;
  }

  rowAt(y: number): Row | undefined {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle]!.y + this.rows[middle]!.h <= y) low = middle + 1;
      else high = middle;
    }
    const row = this.rows[low];
    return row && y >= row.y ? row : undefined;
  }
}
