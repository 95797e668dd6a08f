// The timeline: what is shown, what is selected, and how to get elsewhere.

import { amount, count } from "../../shared/format";
import type { TimelineBlock } from "../data";
import { h, say } from "../../shared/dom";
import { pictureButtons } from "../../shared/picture";
import type { Breakdown } from "./breakdown";
import { details, help, rangeBreakdown, walkPanel } from "./footer";
import { type Hit, counterText, hitAt, tipText } from "./hit";
import { Layout, type Row } from "./layout";
import { looksOf } from "./looks";
import { Minimap } from "./minimap";
import { type Ev, FULL_ZOOM, type Model } from "./model";
import { RULER, TOP, isOnPin, paint } from "./paint";
import { type Walk, longestOf, placeAt } from "./places";
import { type Surface, listen } from "./pointer";
import type { Facts, Source, Wanted } from "./source";
import { type Theme, theme } from "./theme";
import { type Bar, toolbar } from "./toolbar";

export class Timeline implements Surface {
  readonly element: HTMLElement;
  readonly canvas = h("canvas", {
    tabindex: 0, role: "application", class: "rows",
    "aria-label": "Timeline. W and S zoom, A and D pan, arrow up and down scroll, tab to the toolbar for search. N and P step through events of the same name.",
  });
  readonly frameTimes: number[] = [];
  private readonly layout: Layout;
  private readonly map: Minimap;
  private readonly foot = h("div", { class: "timeline-foot", role: "region", "aria-label": "Details of the selection", tabindex: 0 });
  private readonly bar: Bar;
  private readonly tip = h("div", { class: "tip", "aria-hidden": "true" });
  private colours: Theme | undefined;
  private from = 0;
  private to: number;
  private scroll = 0;
  private chosen: Ev | null = null;
  private facts: Facts | null = null;
  private hovered: Ev | null = null;
  private range: [number, number] | null = null;
  private sums: Breakdown | null = null;
  private evidence: [number, number][] = [];
  private walks: Walk[] = [];
  /** What is walked through, and the place in it. */
  private walk: Walk | null = null;
  private place = -1;
  private readonly path: Walk | null;
  private readonly pathEvents: Ev[] = [];
  private pointed: Row | undefined;
  private found: { names: Uint8Array; text: string } | null = null;
  private asked = false;
  private readonly held = new Set<string>();
  private readonly block: TimelineBlock;
  gutter = 170;

  constructor(readonly source: Source, readonly length: number, private readonly changed: () => void) {
    this.to = Math.max(1, length);
    this.block = source.block;
    source.arrived = (problem) => { if (problem) this.bar.problem(problem); else this.ask(); };
    this.layout = new Layout(this.block);
    this.map = new Minimap(source.overview(length), this.to, (middle) => {
      const half = (this.to - this.from) / 2;
      this.show(middle - half, middle + half);
    });
    this.walks = source.walks;
    this.path = source.path?.walk ?? null;
    this.bar = toolbar({
      layout: this.layout, looks: looksOf(this.block.names), classes: this.block.classes, hasPath: this.path !== null,
      search: (text) => this.search(text), first: () => this.first(), step: (d) => void this.step(d),
      fit: () => this.show(0, this.length), redraw: () => this.ask(),
      walk: (walk) => this.walkThrough(walk), path: () => this.togglePath(),
      picture: () => pictureButtons(() => this.canvas, () => `${document.title} timeline`, false),
      zoom: (factor) => this.zoom(factor, (this.gutter + this.canvas.clientWidth) / 2),
    });
    const holder = h("div", { class: "holder" }, this.canvas, this.tip);
    this.element = h("div", { class: "timeline" }, this.bar.element, this.map.canvas, holder, this.foot);
    this.bar.setWalks(this.walks);
    listen(this);
    this.keys();
    new ResizeObserver(() => this.ask()).observe(this.canvas);
    this.footer();
  }

  get model(): Model { return this.source.model; }
  /** The chosen event's id, -1 for none. */
  get selected(): number { return this.chosen?.id ?? -1; }

  /** Findings that came after the page. */
  setWalks(walks: Walk[]): void {
    this.walks = walks;
    this.bar.setWalks(this.walks);
    this.ask();
  }

  // -- what is shown ------------------------------------------------------------------------------

  get choice(): { t?: string; e?: string; sel?: string; q?: string; f?: string; pin?: string } {
    const whole = this.from <= 0 && this.to >= this.length;
    return {
      ...(whole ? {} : { t: `${this.from.toFixed(2)}_${this.to.toFixed(2)}` }),
      ...(this.chosen ? { e: String(this.chosen.id) } : {}),
      ...(this.range ? { sel: this.range.join("_") } : {}),
      ...(this.found ? { q: this.found.text } : {}),
      ...(this.walk ? { f: `${this.walk.finding}_${this.place}` } : {}),
      ...(this.layout.pins.size ? { pin: [...this.layout.pins].join("_") } : {}),
    };
  }

  async restore(parts: URLSearchParams): Promise<void> {
    const pair = (key: string): [number, number] | null => {
      const [a, b] = (parts.get(key) ?? "").split("_").map(Number);
      return a !== undefined && b !== undefined && b > a ? [a, b] : null;
    };
    const known = this.block.tracks.length, counters = this.block.counters.length;
    for (const key of (parts.get("pin") ?? "").split("_").filter(Boolean).map(Number)) {
      if (Number.isInteger(key) && key < known && key >= -counters && !this.layout.pins.has(key)) this.layout.pin(key);
    }
    const [finding, place] = (parts.get("f") ?? "").split("_").map(Number);
    const walk = finding === -1 ? this.path : this.walks.find((w) => w.finding === finding);
    if (walk && place !== undefined && walk.from[place] !== undefined) this.walkThrough(walk, place);
    const q = parts.get("q");
    if (q) { this.bar.search.value = q; this.search(q); }
    const e = parts.has("e") ? Number(parts.get("e")) : -1;
    if (Number.isInteger(e) && e >= 0) {
      await this.select(e, false);
      if (this.chosen) this.scrollTo(this.chosen);
    }
    const range = pair("sel");
    if (range) await this.selectRange(...range);
    const t = pair("t");
    if (t) this.show(...t);
  }

  get shown(): [number, number] { return [this.from, this.to]; }
  /** The selected range, or else what is shown. */
  get lookedAt(): [number, number] { return this.range ?? this.shown; }

  show(from: number, to: number): void {
    const width = Math.max(1, this.canvas.clientWidth - this.gutter);
    let span = Math.min(Math.max(to - from, width * FULL_ZOOM), this.length * 1.02 + 1);
    if (!(span > 0)) span = 1;
    const middle = (from + to) / 2;
    const edge = span * 0.01;
    this.from = Math.max(-edge, Math.min(middle - span / 2, this.length + edge - span));
    this.to = this.from + span;
    this.ask();
    this.changed();
  }

  zoom(factor: number, x: number): void {
    const span = this.to - this.from;
    const at = this.moment(x);
    const share = (at - this.from) / span;
    const wanted = Math.max(span * factor, this.canvas.clientWidth * FULL_ZOOM);
    this.show(at - share * wanted, at + (1 - share) * wanted);
  }

  pan(dx: number, dy: number): void {
    const by = (-dx * (this.to - this.from)) / Math.max(1, this.canvas.clientWidth - this.gutter);
    if (dx) this.show(this.from + by, this.to + by);
    if (dy) { this.scroll -= dy; this.ask(); }
  }

  /** Zoom to a range with some room around it, and mark it. */
  showRange(from: number, to: number): void {
    this.evidence = [[from, to]];
    const room = Math.max((to - from) * 0.6, 50);
    this.show(from - room, to + room);
  }

  /** Walk through the places of a finding, or of the critical path: from the longest, or one given. */
  walkThrough(walk: Walk, place = -1): void {
    this.walk = walk;
    if (walk === this.path && !this.pathEvents.length) this.findPathEvents();
    this.bar.setPath(walk === this.path);
    this.goTo(place);
  }

  /** Show a place of what is walked through; -1 is the longest. */
  goTo(place: number): void {
    const { walk } = this;
    if (!walk) return;
    this.place = place < 0 ? longestOf(walk) : Math.min(place, walk.from.length - 1);
    this.evidence = [];
    this.chosen = this.facts = this.range = null;
    const from = walk.from[this.place]!, to = walk.to[this.place]!;
    const room = Math.max((to - from) * 0.8, 50);
    const event = walk === this.path ? this.pathEvents[this.place] : undefined;
    if (event && event.id >= 0) this.scrollTo(event);
    else this.showRank(walk.ranks?.[this.place] ?? null);
    this.show(from - room, to + room);
    this.footer();
    say(`${walk.title}: ${count(this.place + 1)} of ${count(walk.from.length)}, ${amount("ns", to - from)}`);
  }

  showFinding(place: number): void {
    const walk = this.walks.find((w) => w.finding === place);
    if (walk) this.walkThrough(walk);
  }

  private leaveWalk(): void {
    this.walk = null;
    this.place = -1;
    this.bar.setPath(false);
    this.footer();
    this.ask();
    this.changed();
  }

  private togglePath(): void {
    if (this.walk === this.path) { this.leaveWalk(); return; }
    const [from, to] = this.shown;
    this.walkThrough(this.path!);
    this.show(from, to); // the whole of it first, as much as was shown
  }

  /** The event of each piece of the critical path, where the page holds it. */
  private findPathEvents(): void {
    const none: Ev = { id: -1, lane: 0, start: 0, end: 0, name: 0, cls: 0, count: 0, busy: 0 };
    for (const at of this.source.path!.at) this.pathEvents.push(at > 0 && at <= this.model.size ? this.model.ev(at - 1) : none);
  }

  /** Scroll to a rank's rows if none of them is in view. */
  private showRank(rank: number | null): void {
    const rows = this.layout.rows.filter((row) => row.kind === "lane" && this.block.tracks[row.key]!.rank === rank);
    const room = this.canvas.clientHeight - TOP;
    if (rows.length && !rows.some((row) => this.layout.seen(row, this.scroll, room - row.h))) {
      this.scroll = rows[0]!.y - this.layout.pinned - 20;
    }
  }

  // -- what is selected ---------------------------------------------------------------------------

  async select(id: number, move = true): Promise<void> {
    await this.choose(id >= 0 ? await this.source.event(id) : null, move);
  }

  /** Select an event; what else is known of it follows when it has come. */
  async choose(event: Ev | null, move = true): Promise<void> {
    this.chosen = event;
    this.facts = null;
    this.range = null;
    if (event && move) this.bringIntoView(event);
    if (event) say(`${this.label(event)}, ${amount("ns", event.end - event.start)}`);
    this.ask();
    this.changed();
    const facts = event && event.count === 1 ? this.source.facts(event) : null;
    if (this.block.served) this.footer();
    if (facts) {
      const found = await facts.catch(() => null);
      if (this.chosen !== event) return;
      this.facts = found;
    }
    this.footer();
    this.ask();
  }

  private label(event: Ev): string { return this.block.labels[event.name] ?? ""; }
  private get linked(): Ev[] {
    return this.facts ? (this.facts.call ? [this.facts.call] : this.facts.launched.slice(0, 50)) : [];
  }

  /** Scroll an event's row into view, and open its track if it is closed. */
  private scrollTo(event: Ev): void {
    if (this.layout.laneY[event.lane]! < 0) { this.layout.reveal(event.lane); this.bar.sync(); }
    // Before the first frame nothing is fitted yet.
    if (this.canvas.clientHeight) this.layout.fit(this.canvas.clientHeight - TOP);
    const y = this.layout.laneY[event.lane]!;
    const { pinned } = this.layout, room = this.canvas.clientHeight - TOP - 30;
    if (y >= pinned && (y - this.scroll < pinned || y > this.scroll + room)) this.scroll = y - (pinned + room) / 2;
    this.ask();
  }

  private bringIntoView(event: Ev): void {
    this.scrollTo(event);
    const [a, b] = [event.start, event.end];
    const span = this.to - this.from;
    const width = Math.max(1, this.canvas.clientWidth - this.gutter);
    // So that it is at least a few pixels wide, and in the middle if it was not in view.
    if (b - a < (span / width) * 3) this.show((a + b) / 2 - (b - a + 1) * 40, (a + b) / 2 + (b - a + 1) * 40);
    else if (b < this.from || a > this.to) this.show((a + b) / 2 - span / 2, (a + b) / 2 + span / 2);
  }

  async selectRange(from: number, to: number): Promise<void> {
    const range: [number, number] = [Math.round(from), Math.round(to)];
    this.range = range;
    this.sums = null;
    this.chosen = this.facts = null;
    this.ask();
    this.changed();
    if (range[1] <= range[0]) return;
    if (this.block.served) this.footer();
    const sums = await this.source.breakdown(...range);
    if (this.range !== range) return;
    this.sums = sums;
    this.footer();
  }

  selectPixels(a: number, b: number, done: boolean): void {
    const [from, to] = [this.moment(Math.min(a, b)), this.moment(Math.max(a, b))];
    if (done) void this.selectRange(Math.max(0, from), Math.min(this.length, to));
    else { this.range = [from, to]; this.ask(); }
  }

  clear(): void {
    const selected = this.chosen ?? this.range;
    this.range = null;
    this.evidence = [];
    if (!selected && this.walk) this.leaveWalk();
    else void this.choose(null);
  }

  async step(direction: 1 | -1): Promise<void> {
    let wanted: Wanted | null = this.found;
    const own = this.chosen?.name;
    if (own === undefined && this.walk && !this.found) {
      const place = this.place + direction;
      if (place >= 0 && place < this.walk.from.length) this.goTo(place);
      else say(direction > 0 ? "no later one" : "no earlier one");
      return;
    }
    if (own !== undefined && !wanted?.names[own]) {
      const names = new Uint8Array(this.block.names.length);
      names[own] = 1;
      wanted = { names, name: own };
    }
    if (!wanted) return;
    const next = await this.source.next(this.chosen, wanted, direction);
    if (next) await this.choose(next);
    else say(direction > 0 ? "no later one" : "no earlier one");
  }

  /** Go to the first event that the search found; nowhere where it found none. */
  first(): void {
    if (!this.found?.names.includes(1)) return;
    this.chosen = null;
    void this.step(1);
  }

  search(text: string): void {
    if (!text.trim()) {
      this.found = null;
      this.bar.found.textContent = "";
    } else {
      const result = this.source.search(text.trim());
      this.found = { names: result.names, text: text.trim() };
      this.bar.found.textContent = result.events
        ? `${count(result.events)} events, ${amount("ns", result.time)}` : "nothing found";
    }
    this.ask();
    this.changed();
  }

  private footer(): void {
    const { walk } = this;
    const panel = walk ? [walkPanel(walk, this.place, (place) => this.goTo(place), () => this.leaveWalk())] : [];
    if (this.chosen) {
      this.foot.replaceChildren(...panel, details(this.block, this.chosen, this.facts, {
        select: (e) => void this.choose(e), step: (d) => void this.step(d), zoomTo: (a, b) => this.showRange(a, b),
      }));
    } else if (this.range) {
      const range = this.range;
      this.foot.replaceChildren(...panel, rangeBreakdown(this.block, range, this.sums, () => this.show(...range), () => this.clear()));
    } else {
      this.foot.replaceChildren(...panel, help(this.block.in_tables));
    }
  }

  // -- pointer and keys ---------------------------------------------------------------------------

  private moment(x: number): number {
    return this.from + ((x - this.gutter) * (this.to - this.from)) / Math.max(1, this.canvas.clientWidth - this.gutter);
  }

  private rowAt(y: number): Row | undefined { return this.layout.rowAt(this.layout.fromView(y - TOP, this.scroll)); }

  private hit(x: number, y: number): Hit | null {
    const row = this.rowAt(y);
    if (row?.kind !== "lane" || x < this.gutter || y < TOP) return null;
    const perPixel = (this.to - this.from) / Math.max(1, this.canvas.clientWidth - this.gutter);
    return hitAt(this.model, row.lane, this.moment(x), perPixel);
  }

  click(x: number, y: number): void {
    if (y > RULER && y < TOP) { this.clickMark(x); return; }
    const row = this.rowAt(y);
    if (row?.kind === "group") { this.layout.toggle(row.group); this.bar.sync(); this.ask(); return; }
    if (row && x < this.gutter) {
      const begins = row.kind === "counter" || row.first;
      if (begins && (isOnPin(x, this.gutter) || row.kind === "counter")) this.layout.pin(row.key);
      else if (row.kind === "lane" && row.lanes > 1) this.layout.fold(row.key);
      this.bar.sync();
      this.ask();
      this.changed();
      return;
    }
    const hit = this.hit(x, y);
    if (hit && (hit.event < 0 || this.model.eventsOf(hit.event) > 1)) {
      // A mark of several: closer, until they part.
      const a = this.model.start[hit.first]!, b = this.model.end[hit.last - 1]!;
      const room = Math.max((b - a) * 0.2, 1);
      this.show(a - room, b + room);
    } else void this.choose(hit ? this.model.ev(hit.event) : null, false);
  }

  private clickMark(x: number): void {
    const at = this.moment(x), slack = (4 * (this.to - this.from)) / Math.max(1, this.canvas.clientWidth);
    for (const walk of this.walks) {
      const place = placeAt(walk, at, slack);
      if (place >= 0) { this.walkThrough(walk, place); return; }
    }
  }

  hover(x: number, y: number): void {
    const hit = this.hit(x, y);
    const row = y < TOP ? undefined : this.rowAt(y);
    const before = this.hovered?.id, label = x < this.gutter ? row : undefined;
    this.hovered = hit && hit.event >= 0 ? this.model.ev(hit.event) : null;
    if (this.hovered?.id !== before || label !== this.pointed) { this.pointed = label; this.ask(); }
    this.canvas.style.cursor = label ? "pointer" : "";
    const value = row?.kind === "counter" && x > this.gutter ? counterText(row.counter, this.moment(x)) : "";
    if (!hit && !value) { this.leave(); this.pointed = label; return; }
    this.tip.textContent = hit ? tipText(this.model, hit) : value;
    this.tip.style.display = "block";
    const right = x > this.canvas.clientWidth * 0.6;
    this.tip.style.left = right ? "" : `${x + 12}px`;
    this.tip.style.right = right ? `${this.canvas.clientWidth - x + 12}px` : "";
    this.tip.style.top = `${y + 16}px`;
  }

  leave(): void {
    this.tip.style.display = "none";
    if (this.hovered || this.pointed) { this.hovered = null; this.pointed = undefined; this.ask(); }
  }

  /** Whether a key is for the timeline; does what it says. */
  key(event: KeyboardEvent, down: boolean): boolean {
    const key = event.key.toLowerCase();
    if (["w", "a", "s", "d"].includes(key)) {
      if (down) this.held.add(key);
      else this.held.delete(key);
      this.ask();
      return true;
    }
    if (!down) return false;
    const here: Record<string, () => void> = {
      n: () => void this.step(1), p: () => void this.step(-1), "0": () => this.show(0, this.length),
      f: () => {
        if (this.chosen) this.showRange(this.chosen.start, this.chosen.end);
        else if (this.range) this.show(...this.range);
      },
      "/": () => this.bar.search.focus(), escape: () => this.clear(),
      arrowleft: () => this.pan(80, 0), arrowright: () => this.pan(-80, 0),
      arrowup: () => this.pan(0, 60), arrowdown: () => this.pan(0, -60),
      "+": () => this.zoom(0.7, this.canvas.clientWidth / 2), "-": () => this.zoom(1.4, this.canvas.clientWidth / 2),
    };
    here[key]?.();
    return key in here;
  }

  private keys(): void {
    this.canvas.addEventListener("blur", () => this.held.clear());
    this.canvas.addEventListener("focus", () => this.ask());
  }

  // -- drawing ------------------------------------------------------------------------------------

  themeChanged(): void { this.colours = undefined; this.ask(); }

  ask(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.frame(); });
  }

  /** Draw now; else ask() does with the next frame. */
  frame(): void {
    const { canvas } = this;
    const w = canvas.clientWidth, hgt = canvas.clientHeight;
    if (!w || !hgt) return;
    const begun = performance.now();
    if (this.held.size) {
      const by = 0.02 * (this.to - this.from);
      const middle = (this.gutter + w) / 2;
      if (this.held.has("w")) this.zoom(0.94, middle);
      if (this.held.has("s")) this.zoom(1 / 0.94, middle);
      if (this.held.has("a")) this.show(this.from - by, this.to - by);
      if (this.held.has("d")) this.show(this.from + by, this.to + by);
      this.ask();
    }
    this.gutter = w < 620 ? 84 : 170;
    const scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(w * scale)) canvas.width = Math.round(w * scale);
    if (canvas.height !== Math.round(hgt * scale)) canvas.height = Math.round(hgt * scale);
    const c = canvas.getContext("2d", { alpha: false })!;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    this.colours ??= theme();
    this.layout.fit(hgt - TOP);
    this.scroll = Math.max(0, Math.min(this.scroll, this.layout.height - (hgt - TOP)));
    this.source.want(this.from, this.to, (this.to - this.from) / Math.max(1, w - this.gutter), this.layout.lanesBetween(this.scroll, this.scroll + hgt - TOP));
    const drawn = paint(c, this.model, this.layout, this.colours, {
      from: this.from, to: this.to, scroll: this.scroll, width: w, height: hgt, gutter: this.gutter,
      selected: this.chosen, linked: this.linked, hover: this.hovered, range: this.range,
      evidence: this.evidence, walks: this.walks, walk: this.walk, place: this.place, label: this.pointed,
      path: this.walk && this.walk === this.path ? this.pathEvents : null, found: this.found?.names ?? null,
    });
    this.map.paint(this.colours, this.from, this.to, this.gutter);
    this.bar.said(drawn);
    this.frameTimes.push(performance.now() - begun);
    if (this.frameTimes.length > 2000) this.frameTimes.splice(0, 1000);
  }
}
