// Which rows stand where: headings of ranks, streams, threads with their nested ops, counters.

import type { LinesBlock, TimelineBlock } from "../data";

export type Row =
  | { kind: "group"; y: number; h: number; group: string; open: boolean }
  | { kind: "lane"; y: number; h: number; lane: number; first: boolean; track: number; hidden: number }
  | { kind: "counter"; y: number; h: number; counter: LinesBlock };

const GROUP = 20, STREAM = 18, THREAD = 15, COUNTER = 42, GAP = 5;

export class Layout {
  rows: Row[] = [];
  height = 0;
  /** The rows of the first rank's devices stay in view while the threads below them scroll: so high
   * they are, or 0 where that is too much of the view. */
  pinned = 0;
  private deviceRows = 0;
  /** Where each lane stands; -1 if it does not. */
  laneY: Float64Array;
  private readonly lanes: { track: number; lane: number }[];
  readonly groups: string[];
  readonly closed = new Set<string>();
  /** Tracks of which only the outermost row is drawn. */
  readonly flat = new Set<number>();

  constructor(private readonly block: TimelineBlock) {
    this.groups = [...new Set(block.tracks.map((t) => t.group))];
    if (block.counters.length) this.groups.push("Counters");
    this.lanes = block.lanes.track.map((track, i) => ({ track, lane: block.lanes.lane[i]! }));
    this.laneY = new Float64Array(this.lanes.length);
    // With many ranks, the threads of the first are open, the others' in their outermost row.
    const ranks = [...new Set(block.tracks.map((t) => t.rank))];
    block.tracks.forEach((track, i) => {
      if (track.kind === "thread" && ranks.length > 1 && track.rank !== ranks[0]) this.flat.add(i);
    });
    this.build();
  }

  build(): void {
    this.rows = [];
    this.laneY.fill(-1);
    let y = 0, group = "";
    const perTrack = new Map<number, number>();
    for (const lane of this.lanes) perTrack.set(lane.track, (perTrack.get(lane.track) ?? 0) + 1);
    this.lanes.forEach((lane, index) => {
      const track = this.block.tracks[lane.track]!;
      if (track.group !== group) {
        group = track.group;
        this.rows.push({ kind: "group", y, h: GROUP, group, open: !this.closed.has(group) });
        y += GROUP;
      }
      if (this.closed.has(group)) return;
      const flat = this.flat.has(lane.track);
      const first = this.lanes[index - 1]?.track !== lane.track;
      if (flat && !first) return;
      if (first) y += GAP;
      const h = track.kind === "thread" ? THREAD : STREAM;
      const hidden = flat ? perTrack.get(lane.track)! - 1 : 0;
      this.rows.push({ kind: "lane", y, h, lane: index, first, track: lane.track, hidden });
      this.laneY[index] = y;
      y += h;
    });
    const { counters } = this.block;
    if (counters.length) {
      const open = !this.closed.has("Counters");
      this.rows.push({ kind: "group", y, h: GROUP, group: "Counters", open });
      y += GROUP;
      for (const counter of open ? counters : []) {
        this.rows.push({ kind: "counter", y, h: COUNTER, counter });
        y += COUNTER + GAP;
      }
    }
    this.height = y + 8;
    const below = this.rows.find((row) => row.kind === "group" && !this.ofDevice(row.group));
    this.deviceRows = below && this.rows[0] !== below ? below.y : 0;
  }

  private ofDevice(group: string): boolean {
    return this.block.tracks.some((t) => t.group === group && t.kind !== "thread");
  }

  /** Fit to a view of this height. */
  fit(height: number): void { this.pinned = this.deviceRows < 0.4 * height ? this.deviceRows : 0; }
  /** Where a row's y is in a view that is scrolled, and back. */
  toView(y: number, scroll: number): number { return y < this.pinned ? y : y - scroll; }
  fromView(y: number, scroll: number): number { return y < this.pinned ? y : y + scroll; }
  /** Whether a row can be seen: in the pinned part, or below it. */
  seen(row: { y: number; h: number }, scroll: number, height: number): boolean {
    const y = this.toView(row.y, scroll);
    return y + row.h >= (row.y < this.pinned ? 0 : this.pinned) && y <= height;
  }

  toggle(group: string): void {
    if (!this.closed.delete(group)) this.closed.add(group);
    this.build();
  }

  /** Make a lane's row visible. */
  reveal(lane: number): void {
    const track = this.lanes[lane]!.track;
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
