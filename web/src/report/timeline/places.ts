// The places of a finding in order of time, and which are near a moment.

import type { Numbers, Packed } from "../columns";
import type { Mark, PathBlock } from "../data";
import type { Model } from "./model";

/** What one walks through: places with a title, what is said of all, and of each. */
export interface Walk {
  /** The finding's number, or -1 for the critical path. */
  finding: number;
  title: string;
  summary: string;
  fix: string;
  /** How many places there are; `from` may hold only the longest of them. */
  count: number;
  from: Float64Array;
  to: Float64Array;
  /** The latest end up to each place: it rises, as ends need not. */
  reach: Float64Array;
  ranks: (number | null)[] | undefined;
  label(place: number): string;
}

/** The places of a finding. Of a server there is no packed part, and of its marks no events. */
export async function unpackMark(mark: Mark, packed?: Packed, model?: Model): Promise<Walk> {
  const { finding, title, summary, fix, count } = mark;
  const given = { finding, title, summary, fix, count, label: () => "" };
  if ("at" in mark) {
    const { start, end } = model!;
    const at = (await numbers(mark.at, packed)).sort((a, b) => start[a]! - start[b]! || end[a]! - end[b]!);
    const to = at.map((i) => end[i]!);
    const ranks = mark.by_rank ? Array.from(at, (i) => model!.block.tracks[model!.lanes[model!.laneIndex(i)]!.track]!.rank) : undefined;
    return { ...given, from: at.map((i) => start[i]!), to, reach: reachOf(to), ranks };
  }
  const [from, to] = unpackRanges(await numbers(mark.starts, packed), await numbers(mark.lengths, packed));
  const ranks = mark.ranks && Array.from(await numbers(mark.ranks, packed), (rank) => (rank ? rank - 1 : null));
  return { ...given, from, to, reach: reachOf(to), ranks };
}

/** The critical path, and for each piece the place of its event plus 1, 0 for none. */
export async function unpackPath(path: PathBlock, packed: Packed): Promise<{ walk: Walk; at: Float64Array }> {
  const [part, name] = [await packed.numbers(path.part), await packed.numbers(path.name)];
  const lengths = await packed.numbers(path.lengths);
  // From the start of each piece to that of the next.
  const steps = (await packed.numbers(path.gaps)).map((gap, i) => gap + (i ? lengths[i - 1]! : 0));
  const [from, to] = unpackRanges(steps, lengths);
  const walk: Walk = {
    finding: -1, title: "Critical path", count: from.length, from, to, reach: reachOf(to), ranks: undefined, fix: "",
    summary: "The chain of work and waiting that determines the length of the run. Speeding up anything else changes nothing.",
    label: (place) => `${path.parts[part[place]!]}: ${path.names[name[place]!]}`,
  };
  return { walk, at: await packed.numbers(path.at) };
}

/** A server's numbers are all in the answer. */
async function numbers(given: Numbers, packed: Packed | undefined): Promise<Float64Array> {
  return packed ? packed.numbers(given) : Float64Array.from(given as number[]);
}

function unpackRanges(steps: Float64Array, lengths: Float64Array): [Float64Array, Float64Array] {
  let at = 0;
  const from = steps.map((step) => (at += step));
  return [from, lengths.map((n, i) => from[i]! + n)];
}

function reachOf(to: Float64Array): Float64Array {
  let most = -Infinity;
  return Float64Array.from(to, (end) => (most = Math.max(most, end)));
}

export function longestOf(walk: Walk): number {
  let best = 0;
  for (let i = 1; i < walk.from.length; i++) {
    if (walk.to[i]! - walk.from[i]! > walk.to[best]! - walk.from[best]!) best = i;
  }
  return best;
}

export interface Stretch { from: number; to: number; rank: number | null }

/** Places between two moments, those that would share pixels as one: each is found by search. */
export function mergePlaces(walk: Walk, from: number, to: number, perPixel: number): Stretch[] {
  const found: Stretch[] = [];
  const { from: starts, reach } = walk;
  let i = search(reach, from, 0);
  while (i < starts.length && starts[i]! <= to) {
    const begin = starts[i]!;
    let next = i + 1, end = reach[i]!;
    // What begins before the end of what is merged so far, or in the same pixels, belongs to it.
    while (next < starts.length && starts[next]! <= end + perPixel) {
      next = search(starts, end + perPixel, next);
      end = reach[next - 1]!;
      if (end > to) break;
    }
    found.push({ from: begin, to: end, rank: null });
    i = Math.max(next, i + 1);
  }
  return found;
}

/** The same, but places of different ranks stay apart. */
export function mergePlacesByRank(walk: Walk, from: number, to: number, perPixel: number): Stretch[] {
  if (!walk.ranks) return mergePlaces(walk, from, to, perPixel);
  const found: Stretch[] = [], last = new Map<number | null, Stretch>();
  for (let i = search(walk.reach, from, 0); i < walk.from.length && walk.from[i]! <= to; i++) {
    const a = walk.from[i]!, b = walk.to[i]!, rank = walk.ranks[i] ?? null, before = last.get(rank);
    if (b < from) continue;
    if (before && a - before.to < perPixel) { before.to = Math.max(before.to, b); continue; }
    const stretch = { from: a, to: b, rank };
    last.set(rank, stretch);
    found.push(stretch);
  }
  return found;
}

/** The first place at or after `low` of a rising list whose value is larger than a moment. */
function search(list: Float64Array, moment: number, low: number): number {
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle]! <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The place at a moment, give or take; -1 where there is none. */
export function placeAt(walk: Walk, moment: number, slack: number): number {
  for (let i = search(walk.reach, moment - slack, 0); i < walk.from.length && walk.from[i]! <= moment + slack; i++) {
    if (walk.to[i]! + slack >= moment) return i;
  }
  return -1;
}
