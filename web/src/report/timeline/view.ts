// The timeline: what is shown, what is selected, and how to get elsewhere.

import { amount, count, percent } from "../../shared/format";
import type { Mark } from "../data";
import { h, say } from "../dom";
import { breakdown } from "./breakdown";
import { details, rangeBreakdown } from "./footer";
import { Layout } from "./layout";
import { Minimap } from "./minimap";
import { FULL_ZOOM, type Model } from "./model";
import { RULER, TOP, paint } from "./paint";
import { type Surface, listen } from "./pointer";
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
  private selected = -1;
  private linked: number[] = [];
  private hovered = -1;
  private range: [number, number] | null = null;
  private evidence: [number, number][] = [];
  private found: { names: Uint8Array; text: string } | null = null;
  private asked = false;
  private readonly held = new Set<string>();
  gutter = 170;

  constructor(readonly model: Model, readonly length: number, private readonly changed: () => void) {
    this.to = Math.max(1, length);
    this.layout = new Layout(model);
    this.map = new Minimap(model, this.to, (middle) => {
      const half = (this.to - this.from) / 2;
      this.show(middle - half, middle + half);
    });
    this.bar = toolbar({
      layout: this.layout, marks: model.block.marks,
      search: (text) => this.search(text), step: (d) => this.step(d),
      fit: () => this.show(0, this.length), redraw: () => this.ask(),
      mark: (place) => this.showMark(model.block.marks[place]!),
      zoom: (factor) => this.zoom(factor, (this.gutter + this.canvas.clientWidth) / 2),
    });
    const holder = h("div", { class: "holder" }, this.canvas, this.tip);
    this.element = h("div", { class: "timeline" }, this.bar.element, this.map.canvas, holder, this.foot);
    listen(this);
    this.keys();
    new ResizeObserver(() => this.ask()).observe(this.canvas);
    this.footer();
  }

  // -- what is shown ------------------------------------------------------------------------------

  get choice(): { t?: string; e?: string; sel?: string; q?: string } {
    const whole = this.from <= 0 && this.to >= this.length;
    return {
      ...(whole ? {} : { t: `${this.from.toFixed(2)}_${this.to.toFixed(2)}` }),
      ...(this.selected >= 0 ? { e: String(this.selected) } : {}),
      ...(this.range ? { sel: this.range.join("_") } : {}),
      ...(this.found ? { q: this.found.text } : {}),
    };
  }

  restore(parts: URLSearchParams): void {
    const pair = (key: string): [number, number] | null => {
      const [a, b] = (parts.get(key) ?? "").split("_").map(Number);
      return a !== undefined && b !== undefined && b > a ? [a, b] : null;
    };
    const q = parts.get("q");
    if (q) { this.bar.search.value = q; this.search(q); }
    const e = parts.has("e") ? Number(parts.get("e")) : -1;
    if (Number.isInteger(e) && e >= 0 && e < this.model.size) this.select(e, false);
    const range = pair("sel");
    if (range) this.selectRange(...range);
    const t = pair("t");
    if (t) this.show(...t);
  }

  get shown(): [number, number] { return [this.from, this.to]; }

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

  showMark(mark: Mark): void {
    this.evidence = mark.ranges;
    const longest = mark.ranges.reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a));
    const room = Math.max((longest[1] - longest[0]) * 0.8, 50);
    this.show(longest[0] - room, longest[1] + room);
    say(`${mark.title}: the longest of ${mark.ranges.length} is shown`);
  }

  showFinding(place: number): void {
    const mark = this.model.block.marks.find((m) => m.finding === place);
    if (mark) this.showMark(mark);
  }

  // -- what is selected ---------------------------------------------------------------------------

  select(event: number, move = true): void {
    this.selected = event;
    this.range = null;
    this.linked = [];
    if (event >= 0) {
      const call = this.model.link[event]! - 1;
      this.linked = call >= 0 ? [call] : this.model.cls[event]! >= 3 ? this.model.launchedBy(event, 200) : [];
      if (move) this.bringIntoView(event);
      say(`${this.model.label(event)}, ${amount("ns", this.model.length(event))}`);
    }
    this.footer();
    this.ask();
    this.changed();
  }

  private bringIntoView(event: number): void {
    const lane = this.model.laneIndex(event);
    if (this.layout.laneY[lane]! < 0) this.layout.reveal(lane);
    const y = this.layout.laneY[lane]!;
    const room = this.canvas.clientHeight - TOP - 30;
    if (y < this.scroll || y > this.scroll + room) this.scroll = y - room / 2;
    const [a, b] = [this.model.start[event]!, this.model.end[event]!];
    const span = this.to - this.from;
    const width = Math.max(1, this.canvas.clientWidth - this.gutter);
    // So that it is at least a few pixels wide, and in the middle if it was not in view.
    if (b - a < (span / width) * 3) this.show((a + b) / 2 - (b - a + 1) * 40, (a + b) / 2 + (b - a + 1) * 40);
    else if (b < this.from || a > this.to) this.show((a + b) / 2 - span / 2, (a + b) / 2 + span / 2);
  }

  selectRange(from: number, to: number): void {
    this.range = [Math.round(from), Math.round(to)];
    this.selected = -1;
    this.linked = [];
    this.footer();
    this.ask();
    this.changed();
  }

  selectPixels(a: number, b: number, done: boolean): void {
    const [from, to] = [this.moment(Math.min(a, b)), this.moment(Math.max(a, b))];
    if (done) this.selectRange(Math.max(0, from), Math.min(this.length, to));
    else { this.range = [from, to]; this.ask(); }
  }

  clear(): void {
    this.range = null;
    this.evidence = [];
    this.select(-1);
  }

  step(direction: 1 | -1): void {
    let wanted = this.found?.names;
    if (this.selected >= 0 && !(wanted && wanted[this.model.name[this.selected]!])) {
      wanted = new Uint8Array(this.model.block.names.length);
      wanted[this.model.name[this.selected]!] = 1;
    }
    if (!wanted) return;
    const next = this.model.next(this.selected, wanted, direction);
    if (next >= 0) this.select(next);
    else say(direction > 0 ? "no later one" : "no earlier one");
  }

  search(text: string): void {
    if (!text.trim()) {
      this.found = null;
      this.bar.found.textContent = "";
    } else {
      const result = this.model.search(text.trim());
      this.found = { names: result.names, text: text.trim() };
      this.bar.found.textContent = result.events
        ? `${count(result.events)} events, ${amount("ns", result.time)}` : "nothing found";
    }
    this.ask();
    this.changed();
  }

  private footer(): void {
    if (this.selected >= 0) {
      const event = this.selected;
      this.foot.replaceChildren(details(this.model, event, this.model.cls[event]! >= 3 ? this.linked : [], {
        select: (i) => this.select(i), step: (d) => this.step(d), zoomTo: (a, b) => this.showRange(a, b),
      }));
    } else if (this.range) {
      const range = this.range;
      this.foot.replaceChildren(rangeBreakdown(this.model, range, breakdown(this.model, ...range),
        () => this.show(...range), () => this.clear()));
    } else {
      const n = this.model.block.in_tables;
      this.foot.replaceChildren(h("p", { class: "note" },
        `${count(n)} events. `, h("kbd", {}, "W"), h("kbd", {}, "S"), " or wheel zoom, ",
        h("kbd", {}, "A"), h("kbd", {}, "D"), " or drag pan, wheel over the labels scrolls, ",
        h("kbd", {}, "Shift"), " drag or drag on the ruler selects a range, click shows an event, ",
        h("kbd", {}, "N"), h("kbd", {}, "P"), " next and previous of its name, ", h("kbd", {}, "F"),
        " zooms to the selection, ", h("kbd", {}, "0"), " shows all, ", h("kbd", {}, "/"), " searches. Events narrower than two pixels are drawn as one mark; the tip says how many."));
    }
  }

  // -- pointer and keys ---------------------------------------------------------------------------

  private moment(x: number): number {
    return this.from + ((x - this.gutter) * (this.to - this.from)) / Math.max(1, this.canvas.clientWidth - this.gutter);
  }

  private hit(x: number, y: number): { event: number; first: number; last: number } | null {
    const row = this.layout.rowAt(y - TOP + this.scroll);
    if (row?.kind !== "lane" || x < this.gutter || y < TOP) return null;
    const lane = this.model.lanes[row.lane]!;
    const perPixel = (this.to - this.from) / Math.max(1, this.canvas.clientWidth - this.gutter);
    const at = this.moment(x);
    let found: { event: number; first: number; last: number } | null = null;
    this.model.visit(lane, at - 4 * perPixel, at + 4 * perPixel, perPixel, (i) => {
      const near = this.model.start[i]! <= at + perPixel && this.model.end[i]! >= at - perPixel;
      if (near && !found) found = { event: i, first: i, last: i + 1 };
    }, (first, last) => {
      if (this.model.start[first]! <= at + perPixel && this.model.end[last - 1]! >= at - 2 * perPixel) found ??= { event: -1, first, last };
    });
    return found;
  }

  click(x: number, y: number): void {
    if (y > RULER && y < TOP) { this.clickMark(x); return; }
    const row = this.layout.rowAt(y - TOP + this.scroll);
    if (row?.kind === "group") { this.layout.toggle(row.group); this.bar.sync(); this.ask(); return; }
    if (row?.kind === "lane" && x < this.gutter && this.layout.flat.delete(row.track)) { this.layout.build(); this.ask(); return; }
    const hit = this.hit(x, y);
    if (hit && hit.event < 0) {
      // A mark of several: closer, until they part.
      const a = this.model.start[hit.first]!, b = this.model.end[hit.last - 1]!;
      const room = Math.max((b - a) * 0.2, 1);
      this.show(a - room, b + room);
    } else this.select(hit ? hit.event : -1, false);
  }

  private clickMark(x: number): void {
    const at = this.moment(x), slack = (4 * (this.to - this.from)) / Math.max(1, this.canvas.clientWidth);
    for (const mark of this.model.block.marks) {
      const range = mark.ranges.find(([a, b]) => a - slack <= at && b + slack >= at);
      if (!range) continue;
      this.evidence = mark.ranges;
      const room = Math.max((range[1] - range[0]) * 0.8, 50);
      this.show(range[0] - room, range[1] + room);
      say(mark.title);
      return;
    }
  }

  hover(x: number, y: number): void {
    const hit = this.hit(x, y);
    const before = this.hovered;
    this.hovered = hit?.event ?? -1;
    if (this.hovered !== before) this.ask();
    if (!hit) { this.leave(); return; }
    const m = this.model;
    const text = hit.event >= 0 && m.eventsOf(hit.event) === 1
      ? `${m.label(hit.event)}  ${amount("ns", m.length(hit.event))}`
      : `${count(m.events(hit.first, hit.last))} events, ${amount("ns", m.time(hit.first, hit.last))} ` +
        `(${percent(m.time(hit.first, hit.last), m.end[hit.last - 1]! - m.start[hit.first]!)} of their span); click to zoom`;
    this.tip.textContent = text.slice(0, 200);
    this.tip.style.display = "block";
    const right = x > this.canvas.clientWidth * 0.6;
    this.tip.style.left = right ? "" : `${x + 12}px`;
    this.tip.style.right = right ? `${this.canvas.clientWidth - x + 12}px` : "";
    this.tip.style.top = `${y + 16}px`;
  }

  leave(): void {
    this.tip.style.display = "none";
    if (this.hovered >= 0) { this.hovered = -1; this.ask(); }
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
      n: () => this.step(1), p: () => this.step(-1), "0": () => this.show(0, this.length),
      f: () => {
        if (this.selected >= 0) this.showRange(this.model.start[this.selected]!, this.model.end[this.selected]!);
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

  /** What of the rows in view is drawn by itself, and what stands together. */
  private said(drawn: { single: number; several: number }): void {
    const marks = drawn.several ? `, ${count(drawn.several)} marks of several` : "";
    const text = `in view: ${count(drawn.single)} events${marks}`;
    if (this.bar.drawn.textContent !== text) this.bar.drawn.textContent = text;
  }

  private frame(): void {
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
    this.scroll = Math.max(0, Math.min(this.scroll, this.layout.height - (hgt - TOP)));
    const drawn = paint(c, this.model, this.layout, this.colours, {
      from: this.from, to: this.to, scroll: this.scroll, width: w, height: hgt, gutter: this.gutter,
      selected: this.selected, linked: this.linked.slice(0, 50), hover: this.hovered, range: this.range,
      evidence: this.evidence, marks: this.model.block.marks, found: this.found?.names ?? null,
    });
    this.map.paint(this.colours, this.from, this.to);
    this.said(drawn);
    this.frameTimes.push(performance.now() - begun);
    if (this.frameTimes.length > 2000) this.frameTimes.splice(0, 1000);
  }
}
