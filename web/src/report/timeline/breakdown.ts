// What a selected range holds: sums of what is drawn there, cut to the range.

import type { Model } from "./model";

export interface DeviceShare {
  rank: number; device: number;
  compute: number; comm: number; copy: number; unknown: number; idle: number;
}
export interface NameShare { name: number; count: number; time: number }
export interface Breakdown { devices: DeviceShare[]; deviceNames: NameShare[]; hostNames: NameShare[]; exact: boolean }

const MOST = 6;

export function breakdown(model: Model, from: number, to: number): Breakdown {
  const { tracks } = model.block;
  const keys = [...new Set(tracks.filter((t) => t.kind === "stream").map((t) => `${t.rank} ${t.device}`))];
  const devices = keys.map((key) => {
    const [rank, device] = key.split(" ").map(Number) as [number, number];
    const found = operations(model, from, to, rank, device);
    // The partition of `sightline stats breakdown`: each moment is the first class's that is active.
    let sum = 0, n = 0;
    const [compute, withComm, withCopy, all] = [0, 1, 2, 3].map((upTo) => {
      const own = found.filter((i) => model.cls[i]! <= upTo);
      if (own.length > n) sum = union(model, from, to, own); // what is not there adds nothing
      n = own.length;
      return sum;
    });
    return {
      rank, device, compute: compute!, comm: withComm! - compute!, copy: withCopy! - withComm!, unknown: all! - withCopy!,
      idle: to - from - all!,
    };
  });
  const device = names(model, from, to, true), host = names(model, from, to, false);
  return { devices, deviceNames: device, hostNames: host, exact: !model.count };
}

/** A device's operations between two moments. */
function operations(model: Model, from: number, to: number, rank: number, device: number): number[] {
  const found: number[] = [];
  for (const lane of model.lanes) {
    const track = model.block.tracks[lane.track]!;
    if (track.kind !== "stream" || track.rank !== rank || track.device !== device) continue;
    for (let i = model.endsAfter(from, lane); i < lane.to && model.start[i]! < to; i++) found.push(i);
  }
  return found;
}

/** How long at least one of these was running between two moments. */
function union(model: Model, from: number, to: number, own: number[]): number {
  const s = new Float64Array(own.length), e = new Float64Array(own.length);
  own.forEach((event, i) => {
    s[i] = Math.max(from, model.start[event]!);
    e[i] = Math.min(to, model.end[event]!);
  });
  s.sort();
  e.sort();
  // With both sorted, a stretch is over where as many have ended as have begun.
  let total = 0, first = 0;
  for (let i = 0; i < s.length; i++) {
    if (i + 1 === s.length || s[i + 1]! > e[i]!) {
      total += e[i]! - s[first]!;
      first = i + 1;
    }
  }
  return total;
}

function names(model: Model, from: number, to: number, device: boolean): NameShare[] {
  const time = new Float64Array(model.block.names.length);
  const count = new Uint32Array(model.block.names.length);
  for (const lane of model.lanes) {
    if ((model.block.tracks[lane.track]!.kind === "stream") !== device) continue;
    if (model.block.tracks[lane.track]!.kind === "ranges") continue;
    for (let i = model.endsAfter(from, lane); i < lane.to && model.start[i]! < to; i++) {
      const name = model.name[i]!;
      time[name]! += Math.max(0, Math.min(to, model.end[i]!) - Math.max(from, model.start[i]!));
      count[name]! += model.eventsOf(i);
    }
  }
  return [...time.keys()].filter((i) => time[i]! > 0)
    .sort((a, b) => time[b]! - time[a]!).slice(0, MOST)
    .map((name) => ({ name, count: count[name]!, time: time[name]! }));
}
