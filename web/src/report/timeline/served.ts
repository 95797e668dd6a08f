// Events from the server that the page came from: src/sightline/report/serve.

import type { TimelineBlock } from "../data";
import type { Breakdown } from "./breakdown";
import { COLUMN, type Ev, Model } from "./model";
import { type Facts, type Instances, type Source, type Wanted, named } from "./source";

/** An answer of the server, or an error with what it says. */
export async function ask(path: string, query: Record<string, string | number> = {}, signal?: AbortSignal): Promise<Response> {
  const text = new URLSearchParams(Object.entries(query).map(([k, v]) => [k, String(v)])).toString();
  // Relative to the page's own address, which holds the token.
  const found = await fetch(text ? `${path}?${text}` : path, signal ? { signal } : {});
  if (!found.ok) {
    const said = (await found.json().catch(() => ({}))) as { error?: string };
    throw new Error(said.error ?? `the server answers ${found.status}`);
  }
  return found;
}

interface Piece { from: number; to: number; column: number; lanes: string }

export class Served implements Source {
  model: Model;
  readonly walks = []; // they come later
  readonly path = null;
  arrived: Source["arrived"] = () => undefined;
  private have: Piece | undefined;
  private coming: { piece: Piece; stop: AbortController } | undefined;

  constructor(readonly block: TimelineBlock, private readonly length: number) {
    this.model = Model.empty(block);
  }

  want(from: number, to: number, perPixel: number, lanes: number[]): void {
    // Columns of a power of two: while one zooms, an answer holds until twice as close.
    const column = COLUMN * 2 ** Math.floor(Math.log2(perPixel));
    const span = to - from;
    const wanted: Piece = {
      from: Math.floor(Math.max(-1, from - span)), to: Math.ceil(Math.min(this.length + 1, to + span)),
      column, lanes: lanes.join(","),
    };
    const good = (p: Piece | undefined) => p && p.column === column && p.lanes === wanted.lanes
      && p.from <= Math.max(-1, from) && p.to >= Math.min(this.length + 1, to);
    if (good(this.coming?.piece)) return;
    this.coming?.stop.abort();
    this.coming = undefined;
    if (good(this.have)) return;
    const coming = { piece: wanted, stop: new AbortController() };
    this.coming = coming;
    void this.fetched(wanted, coming.stop.signal).then((model) => {
      if (this.coming !== coming) return;
      this.coming = undefined;
      this.have = wanted;
      this.model = model;
      this.arrived();
    }).catch((error: unknown) => {
      if (this.coming !== coming) return; // the view has moved on
      // What there is stays. The next move asks again.
      this.coming = undefined;
      this.arrived(`no newer events: ${error instanceof Error ? error.message : String(error)}`);
    });
  }

  private async fetched(piece: Piece, signal?: AbortSignal): Promise<Model> {
    const answer = await ask("window", { from: piece.from, to: piece.to, column: piece.column, lanes: piece.lanes }, signal);
    return read(this.block, await answer.arrayBuffer());
  }

  /** All lanes between two moments at a resolution: what the tests count. */
  async range(from: number, to: number, column: number): Promise<Model> {
    return this.fetched({ from, to, column, lanes: this.block.lanes.n.map((_, i) => i).join(",") });
  }

  /** Whether what is drawn is what was asked for. */
  get settled(): boolean { return !this.coming && this.have !== undefined; }

  async event(id: number): Promise<Ev | null> {
    return (await (await ask("event", { id })).json()) as Ev;
  }

  async facts(event: Ev): Promise<Facts> {
    return (await (await ask("facts", { id: event.id })).json()) as Facts;
  }

  async next(event: Ev | null, wanted: Wanted, direction: 1 | -1): Promise<Ev | null> {
    const far = direction > 0 ? -1 : Math.ceil(this.length) + 1;
    const which: Record<string, string | number> = wanted.text === undefined ? { name: wanted.name ?? -1 } : { q: wanted.text };
    const answer = await ask("next", { ...which, at: event?.start ?? far, after: event?.id ?? -1, direction });
    return (await answer.json()) as Ev | null;
  }

  search(text: string): { names: Uint8Array; events: number; time: number } {
    const names = named(this.block.names, text);
    const totals = this.block.totals ?? { n: [], ns: [] };
    let events = 0, time = 0;
    names.forEach((hit, i) => { if (hit) { events += totals.n[i] ?? 0; time += totals.ns[i] ?? 0; } });
    return { names, events, time };
  }

  async breakdown(from: number, to: number): Promise<Breakdown> {
    return (await (await ask("breakdown", { from, to })).json()) as Breakdown;
  }

  async instances(name: string): Promise<Instances | null> {
    const found = (await (await ask("instances", { name })).json()) as Instances;
    return found.count ? { ...found, merged: 0 } : null;
  }

  overview(): number[][] { return this.block.overview ?? []; }
}

/** What sightline/views/serve/view.py wrote: a line of JSON, then columns one after another. */
export function read(block: TimelineBlock, bytes: ArrayBuffer): Model {
  const begin = new Uint8Array(bytes).indexOf(10) + 1;
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 0, begin))) as { lanes: number[]; n: number[] };
  const n = head.n.reduce((a, b) => a + b, 0);
  const sizes = new Array<number>(block.lanes.n.length).fill(0);
  head.lanes.forEach((lane, i) => { sizes[lane] = head.n[i]!; });
  const f64 = (i: number) => new Float64Array(bytes, begin + 8 * n * i, n);
  const u32 = (i: number) => new Uint32Array(bytes, begin + 8 * n * 4 + 4 * n * i, n);
  const start = f64(1), length = f64(2);
  const end = Float64Array.from(length, (v, i) => v + start[i]!);
  return new Model(block, sizes, {
    ids: f64(0), start, end, busy: f64(3), name: u32(0), count: u32(1), cls: new Uint8Array(bytes, begin + 8 * n * 5, n),
  });
}
