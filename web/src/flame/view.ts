// The flame graph: draws its data with d3-flame-graph inside a host element, which has the parts of
// page.html. What is chosen is told to `remember`, so that a link shows the same picture.

import { select } from "d3-selection";
import flamegraph, { type Chart, type FrameNode } from "d3-flame-graph";
import { change, colour } from "./colour";
import type { Page } from "./data";
import { amount, percent } from "../shared/format";
import { type Around, type State, WEIGHTS, address } from "./state";
import { type Frame, build } from "./tree";

/** The first picture at once: d3-flame-graph lets its boxes grow for 250 ms, which paper never sees. */
function settle(box: HTMLElement): void {
  for (const frame of box.querySelectorAll("g.frame")) {
    const text = frame.querySelector("foreignObject");
    frame.querySelector("rect")?.setAttribute("width", text?.getAttribute("width") ?? "0");
    const label = text?.querySelector("div");
    if (label) label.textContent = frame.getAttribute("name");
  }
}

export class View {
  private chart: Chart<Frame> | undefined;
  private root: Frame = { frame: -1, value: 0, own: 0, before: 0 };
  private nodes: FrameNode<Frame> | undefined;
  private selected: FrameNode<Frame> | undefined;

  constructor(
    private readonly page: Page, private readonly state: State, private readonly around: Around,
  ) {}

  private part<T extends HTMLElement>(id: string): T {
    return this.around.part<T>(id);
  }

  /** Build the tree anew and draw it. */
  draw(): void {
    const { page, state } = this;
    const layers = new Set(page.layers.keys());
    for (const layer of state.hidden) layers.delete(layer);
    this.root = build(page, {
      weight: state.weight, order: state.order, layers, only: state.only,
      mergeRecursion: state.merge,
    });
    this.around.dark(state.dark);
    this.chart?.destroy();
    const box = this.part("chart");
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.chart = flamegraph<Frame>()
      .width(Math.max(320, box.clientWidth))
      .cellHeight(19)
      .minFrameSize(0.6)
      .transitionDuration(0) // only what a person does moves, not the first picture
      .inverted(state.icicle)
      .resetHeightOnZoom(true)
      .sort((a, b) => (this.name(a.data) < this.name(b.data) ? -1 : 1))
      .getName((d) => this.label(d.data))
      // In a difference a frame is as wide as the larger of its two values.
      .getValue((d) => (page.before ? this.width(d) : d.value))
      .setLabelHandler((d) => this.describe(d))
      .setColorMapper((d) => this.fill(d))
      .setSearchMatch((d, term) => this.matches(d, term))
      .setSearchHandler((_found, sum) => this.showSearch(sum))
      .setDetailsHandler((text) => { this.part("details").textContent = text ?? this.summary(); })
      .onClick((d) => this.zoomed(d));
    const target = select(box).datum(this.root);
    this.chart(target);
    this.nodes = select<HTMLElement, FrameNode<Frame>>(box).datum();
    settle(box);
    this.chart.transitionDuration(still ? 0 : 250);
    this.part("details").textContent = this.summary();
    this.grades();
    this.legend();
    if (state.zoom) this.zoomPath(state.zoom);
    // Without a term there is nothing to clear, and clearing would animate the first picture.
    if (state.search) this.search(state.search);
    this.describeSvg();
  }

  private width(d: Frame): number {
    return Math.max(d.value, d.before, (d.children ?? []).reduce((n, c) => n + this.width(c), 0));
  }

  private name(d: Frame): string {
    return d.frame < 0 ? "all" : (this.page.frames.name[d.frame] ?? "");
  }

  private label(d: Frame): string {
    const text = d.frame < 0 ? "all" : (this.page.frames.label[d.frame] ?? "");
    if (!this.page.before || this.same(d)) return text;
    return `${d.value > d.before ? "▲" : "▼"} ${text}`;
  }

  private same(d: Frame): boolean {
    return Math.abs(d.value - d.before) <= (this.page.noise ?? 0) * Math.max(d.value, d.before);
  }

  private unit(): string {
    return this.page.units[this.state.weight] ?? "";
  }

  private describe(node: FrameNode<Frame>): string {
    const d = node.data;
    const layer = d.frame < 0 ? "" : ` [${this.page.layers[this.page.frames.layer[d.frame] ?? 0]?.doc}]`;
    const text = `${this.name(d)}${layer}: ${amount(this.unit(), d.value)}, ` +
      `${percent(d.value, this.root.value)}; itself ${amount(this.unit(), d.own)}`;
    if (!this.page.before) return text;
    const sign = d.value >= d.before ? "+" : "−";
    const by = amount(this.unit(), Math.abs(d.value - d.before));
    const kind = d.before === 0 ? "new" : d.value === 0 ? "gone" : `${sign}${by}`;
    return `${text}; before ${amount(this.unit(), d.before)} (${kind})`;
  }

  private fill(node: FrameNode<Frame>): string {
    if (node.highlight) return "var(--found)";
    const { page } = this;
    const d = node.data;
    return page.before
      ? change(d.before, d.value, page.noise ?? 0)
      : colour(page, this.state.palette, d.frame);
  }

  private matches(node: FrameNode<Frame>, term: string): boolean {
    if (!term || node.data.frame < 0) return false;
    const name = this.name(node.data);
    try {
      return new RegExp(term, "i").test(name);
    } catch {
      return name.toLowerCase().includes(term.toLowerCase()); // not yet a whole expression
    }
  }

  search(term: string): void {
    this.state.search = term;
    this.part("found").textContent = "";
    if (term) this.chart?.search(term);
    else this.chart?.clear();
    this.remember();
  }

  private showSearch(sum: number): void {
    // d3-flame-graph counts a match inside a match once, so the share is of covered width.
    this.part("found").textContent = this.state.search
      ? `${amount(this.unit(), sum)}, ${percent(sum, this.root.value)}` : "";
  }

  private zoomed(node: FrameNode<Frame>): void {
    this.selected = node;
    const path: number[] = [];
    for (let n: FrameNode<Frame> | null = node; n && n.data.frame >= 0; n = n.parent) {
      path.unshift(n.data.frame);
    }
    this.state.zoom = path.join(".");
    this.crumbs(node);
    this.remember();
  }

  private crumbs(node: FrameNode<Frame>): void {
    const list = this.part("crumbs");
    list.replaceChildren();
    const chain: FrameNode<Frame>[] = [];
    for (let n: FrameNode<Frame> | null = node; n; n = n.parent) chain.unshift(n);
    for (const step of chain.length > 6 ? [chain[0]!, ...chain.slice(-5)] : chain) {
      const button = document.createElement("button");
      button.textContent = this.label(step.data);
      button.title = this.name(step.data);
      button.onclick = () => this.chart?.zoomTo(step);
      list.append(button);
    }
  }

  private zoomPath(path: string): void {
    let node = this.nodes;
    for (const frame of path.split(".").map(Number)) {
      const next = node?.children?.find((child) => child.data.frame === frame);
      if (!next) break;
      node = next;
    }
    if (node && node !== this.nodes) this.chart?.zoomTo(node);
  }

  resetZoom(): void {
    this.chart?.resetZoom();
    this.state.zoom = "";
    this.selected = this.nodes;
    this.part("crumbs").replaceChildren();
    this.remember();
  }

  /** Arrow keys: to the parent, the largest child, the neighbours. */
  move(key: string): void {
    const at = this.selected ?? this.nodes;
    if (!at) return;
    const largest = (nodes: FrameNode<Frame>[] | undefined) =>
      nodes?.reduce((a, b) => (b.data.value > a.data.value ? b : a));
    const siblings = [...(at.parent?.children ?? [at])].sort((a, b) =>
      this.name(a.data) < this.name(b.data) ? -1 : 1);
    const place = siblings.indexOf(at);
    const inwards = this.state.icicle ? "ArrowDown" : "ArrowUp";
    const outwards = this.state.icicle ? "ArrowUp" : "ArrowDown";
    const next = key === inwards ? largest(at.children)
      : key === outwards ? at.parent
        : key === "ArrowLeft" ? siblings[place - 1] : siblings[place + 1];
    if (next) {
      this.chart?.zoomTo(next);
      this.part("details").textContent = this.describe(next);
    }
  }

  private summary(): string {
    return `${WEIGHTS[this.state.weight] ?? this.state.weight}: ${amount(this.unit(), this.root.value)}`;
  }

  private grades(): void {
    const sums = new Map<number, number>();
    const values = this.page.stacks.values[this.state.weight] ?? [];
    let total = 0;
    values.forEach((value, i) => {
      const grade = this.page.stacks.match[i] ?? 0;
      sums.set(grade, (sums.get(grade) ?? 0) + value);
      total += value;
    });
    const texts = [...sums].filter(([, v]) => v > 0).sort(([a], [b]) => a - b)
      .map(([grade, v]) => `${this.page.grades[grade]} ${percent(v, total)}`);
    this.part("grades").textContent = texts.length ? `CPU joined to device: ${texts.join(" · ")}` : "";
  }

  private legend(): void {
    const used = new Set<number>();
    const walk = (d: Frame) => {
      if (d.frame >= 0) used.add(this.page.frames.layer[d.frame] ?? 0);
      d.children?.forEach(walk);
    };
    walk(this.root);
    const list = this.part("legend");
    list.replaceChildren();
    for (const place of [...used].sort((a, b) => a - b)) {
      const layer = this.page.layers[place]!;
      const example = this.page.frames.layer.indexOf(place);
      const item = document.createElement("li");
      const swatch = document.createElement("i");
      swatch.style.background = this.page.before ? "transparent"
        : colour(this.page, this.state.palette, example);
      item.append(swatch, layer.doc);
      list.append(item);
    }
  }

  /** What a screen reader says of the picture: its largest frames, in words. */
  private describeSvg(): void {
    const svg = this.part("chart").querySelector("svg");
    if (!svg) return;
    const own = new Map<number, number>();
    const walk = (d: Frame) => {
      if (d.own && d.frame >= 0) own.set(d.frame, (own.get(d.frame) ?? 0) + d.own);
      d.children?.forEach(walk);
    };
    walk(this.root);
    const top = [...own].sort(([, a], [, b]) => b - a).slice(0, 5)
      .map(([f, v]) => `${this.page.frames.label[f]} ${percent(v, this.root.value)}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Flame graph. ${this.summary()}. Largest: ${top.join(", ")}.`);
  }

  remember(): void {
    this.around.remember(address(this.state));
  }
}
