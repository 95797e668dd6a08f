// Events of the page from what cannot be foreseen of them: undoes timeline/foresight.py, exactly.

import type { Packed } from "../columns";
import type { TimelineBlock } from "../data";
import type { Columns, Lane } from "./model";

/** What the starts of a lane's events are counted from, in the order of foresight.py. */
const ABOVE = 1, CALL = 2, QUEUE = 3;

/** Let the browser paint and hear between two parts of a long work. */
const rest = () => new Promise((done) => { setTimeout(done, 0); });

export async function unpackEvents(block: TimelineBlock, lanes: Lane[], packed: Packed): Promise<Columns> {
  const read = (name: string) => packed.numbers(block.columns[name]!);
  const link = Uint32Array.from(await read("link"));
  const nested = lanes.map((_, i) => block.bases![i] === ABOVE);
  const parent = parentsOf(lanes, nested, await read("up"), link.length);
  const streams = lanes.map((lane) => block.tracks[lane.track]!.kind === "stream");
  await rest();
  const ranks = await read("name");
  const name = block.columns["known"]
    ? namesOf(lanes, streams, parent, link, ranks, await read("known"), await read("names"))
    : Uint32Array.from(ranks);
  const order = orderOf(name, block.names.length);
  await rest();
  const start = scatter(await read("gap"), order);
  const end = scatter(await read("tail"), order);
  await rest();
  settle(block.bases!, lanes, parent, link, start, end);
  await rest();
  const detail = Uint32Array.from(await read("detail")), of = block.details_of ?? [];
  for (let i = 0; i < detail.length; i++) detail[i] = of[name[i]!]![detail[i]!]!;
  const { count } = block.columns;
  return {
    start, end, name, link, detail, cls: Uint8Array.from(await read("class")),
    ...(count ? { count: Uint32Array.from(await read("count")), busy: await read("busy") } : {}),
  };
}

/** For each event the place of the one around it in the lane above, -1 for none. */
function parentsOf(lanes: Lane[], nested: boolean[], steps: Float64Array, n: number): Int32Array {
  const parent = new Int32Array(n).fill(-1);
  let at = 0;
  lanes.forEach((lane, place) => {
    if (!nested[place]) return;
    const above = lanes[place - 1]!;
    let own = above.from - 1;
    for (let i = lane.from; i < lane.to; i++) {
      own += steps[at++]!;
      if (own >= above.from) parent[i] = own;
    }
  });
  return parent;
}

/** Names from their places among those of the same caller. */
function namesOf(
  lanes: Lane[], streams: boolean[], parent: Int32Array, link: Uint32Array, ranks: Float64Array, known: Float64Array, names: Float64Array,
): Uint32Array {
  const name = new Uint32Array(ranks.length), first = new Uint32Array(known.length + 1);
  known.forEach((size, context) => { first[context + 1] = first[context]! + size; });
  const fill = (lane: Lane, ofStream: boolean) => {
    for (let i = lane.from; i < lane.to; i++) {
      const call = ofStream ? link[i]! - 1 : i;
      let own = call < 0 ? -1 : parent[call]!;
      if (ofStream && own < 0) own = call;
      name[i] = names[first[own < 0 ? 0 : name[own]! + 1]! + ranks[i]!]!;
    }
  };
  // What calls comes before what is called, wherever it stands.
  lanes.forEach((lane, i) => { if (!streams[i]) fill(lane, false); });
  lanes.forEach((lane, i) => { if (streams[i]) fill(lane, true); });
  return name;
}

/** Places of the events in order of their names, and of equal names as they stand. */
function orderOf(name: Uint32Array, names: number): Uint32Array {
  const next = new Uint32Array(names + 1);
  for (const one of name) next[one + 1]!++;
  for (let i = 0; i < names; i++) next[i + 1]! += next[i]!;
  const order = new Uint32Array(name.length);
  for (let i = 0; i < name.length; i++) order[next[name[i]!]!++] = i;
  return order;
}

function scatter(values: Float64Array, order: Uint32Array): Float64Array {
  const found = new Float64Array(values.length);
  for (let i = 0; i < values.length; i++) found[order[i]!] = values[i]!;
  return found;
}

/** Turn what starts and ends differ by from what was foreseen into starts and ends, in place.
 *
 * A range begins after the one before it in its lane, which ends after the last one within it: so
 * the ranges within one are settled before the next.
 */
function settle(bases: number[], lanes: Lane[], parent: Int32Array, link: Uint32Array, start: Float64Array, end: Float64Array): void {
  const n = start.length, child = new Int32Array(n).fill(-1), first = new Uint8Array(n);
  for (const lane of lanes) if (lane.to > lane.from) first[lane.from] = 1;
  for (let i = n - 1; i >= 0; i--) if (parent[i]! >= 0) child[parent[i]!] = i;
  const range = (i: number): void => {
    const before = first[i] ? 0 : end[i - 1]!, own = parent[i]!;
    start[i]! += own >= 0 ? Math.max(before, start[own]!) : before;
    let last = start[i]!;
    for (let c = child[i]!; c >= 0 && c < n && parent[c] === i; c++) {
      range(c);
      last = end[c]!;
    }
    end[i]! += last;
  };
  // Ranges that begin before all of the lane above belong to none; those of inner lanes come first.
  for (let place = lanes.length - 1; place >= 0; place--) {
    const lane = lanes[place]!;
    if (bases[place]! >= CALL) continue;
    for (let i = lane.from; i < lane.to && parent[i]! < 0; i++) range(i);
  }
  lanes.forEach((lane, place) => {
    if (bases[place]! < CALL) return;
    let before = 0;
    for (let i = lane.from; i < lane.to; i++) {
      const call = link[i]! - 1;
      const foreseen = call < 0 ? before : bases[place] === QUEUE ? Math.max(before, end[call]!) : start[call]!;
      start[i]! += foreseen;
      before = end[i]! += start[i]!;
    }
  });
}
