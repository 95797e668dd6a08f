// The places of a finding in order of time, and which are near a moment.

import type { Mark, PathBlock } from "../data";

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
  ranks: (number | null)[] | undefined;
  label(place: number): string;
}

export function unpackMark(mark: Mark): Walk {
  const [from, to] = unpackRanges(mark.starts, mark.lengths);
  const { finding, title, summary, fix, count, ranks } = mark;
  return { finding, title, summary, fix, count, from, to, ranks, label: () => "" };
}

export function unpackPath(path: PathBlock): Walk {
  const [from, to] = unpackRanges(path.starts, path.lengths);
  return {
    finding: -1, title: "Critical path", count: from.length, from, to, ranks: undefined, fix: "",
    summary: "The chain of work and waiting that determines the length of the run. Speeding up anything else changes nothing.",
    label: (place) => `${path.parts[path.part[place]!]}: ${path.names[path.name[place]!]}`,
  };
}

function unpackRanges(starts: number[], lengths: number[]): [Float64Array, Float64Array] {
  let at = 0;
  const from = Float64Array.from(starts, (step) => (at += step));
  return [from, Float64Array.from(lengths, (n, i) => from[i]! + n)];
}

export function longestOf(walk: Walk): number {
  let best = 0;
  for (let i = 1; i < walk.from.length; i++) {
    if (walk.to[i]! - walk.from[i]! > walk.to[best]! - walk.from[best]!) best = i;
  }
  return best;
}

/** Places between two moments, those that would share pixels as one range. */
export function visiblePlaces(walk: Walk, from: number, to: number, perPixel: number): { from: number; to: number; rank: number | null }[] {
  const found: { from: number; to: number; rank: number | null }[] = [];
  for (let i = 0; i < walk.from.length && walk.from[i]! <= to; i++) {
    const a = walk.from[i]!, b = walk.to[i]!;
    if (b < from) continue;
    const rank = walk.ranks?.[i] ?? null, last = found[found.length - 1];
    if (last && last.rank === rank && a - last.to < perPixel) last.to = Math.max(last.to, b);
    else found.push({ from: a, to: b, rank });
  }
  return found;
}

/** The place at a moment, give or take; -1 where there is none. */
export function placeAt(walk: Walk, moment: number, slack: number): number {
  for (let i = 0; i < walk.from.length && walk.from[i]! <= moment + slack; i++) {
    if (walk.to[i]! + slack >= moment) return i;
  }
  return -1;
}
