// The flame graph: draws its data with d3-flame-graph inside a host element, which has the parts of
// page.html. What is chosen is told to `remember`, so that a link shows the same picture.

import { select } from "d3-selection";
import flamegraph, { type Chart, type FrameNode } from "d3-flame-graph";
import { change, colour } from "./colour";
import type { Page } from "./data";
import { h } from "../shared/dom";
import { amount, percent } from "../shared/format";
import { type Around, type State, WEIGHTS, address } from "./state";
import { type FunctionSum, sandwichOf, sumFunctions } from "./sandwich";
import { type Choice, type Frame, build } from "./tree";

// Rows of the table of functions: more are found by a search.
const MOST_FUNCTIONS = 300;
// Kinds of layers (flames/layers.py) that are a device's.
const DEVICE = new Set(["device", "gpu_source", "kernel", "instruction"]);

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
  private charts: Chart<Frame>[] = [];
  private chart: Chart<Frame> | undefined;
  private sortBy: "own" | "total" = "own";
  private root: Frame = { frame: -1, value: 0, own: 0, before: 0 };
  private nodes: FrameNode<Frame> | undefined;
  private selected: FrameNode<Frame> | undefined;

  constructor(
    private readonly page: Page, private readonly state: State, private readonly around: Around,
  ) {}

  private part<T extends HTMLElement>(id: string): T {
    return this.around.part<T>(id);
  }

  private get choice(): Choice {
    const { page, state } = this;
    const layers = new Set(page.layers.keys());
    for (const layer of state.hidden) layers.delete(layer);
    return { weight: state.weight, order: state.order, layers, only: state.only, split: state.split, mergeRecursion: state.merge };
  }

  /** The drawing that there is to copy. */
  get drawing(): SVGSVGElement | null {
    return this.part(this.state.order === "function" ? "callees" : "chart").querySelector("svg");
  }

  /** Build the tree anew and draw it. */
  draw(): void {
    const { state } = this;
    const byFunction = state.order === "function";
    this.part("functions").hidden = !byFunction;
    this.part("chart").hidden = byFunction;
    for (const chart of this.charts) chart.destroy();
    this.charts = [];
    this.root = build(this.page, { ...this.choice, order: byFunction ? "how" : state.order });
    if (byFunction) this.drawFunctions();
    else {
      const { chart, nodes } = this.chartOf(this.part("chart"), this.root, !state.upward, (d) => this.zoomed(d));
      this.chart = chart;
      this.nodes = nodes;
    }
    this.part("details").textContent = this.summary();
    this.grades();
    this.legend();
    if (state.zoom && !byFunction) this.zoomPath(state.zoom);
    // Without a term there is nothing to clear, and clearing would animate the first picture.
    if (state.search) this.search(state.search);
    if (!byFunction) this.describeSvg();
  }

  /** A tree as a chart of its own; `inverted` has the root at the top. */
  private chartOf(
    box: HTMLElement, root: Frame, inverted: boolean, click: (d: FrameNode<Frame>) => void,
  ): { chart: Chart<Frame>; nodes: FrameNode<Frame> } {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const chart = flamegraph<Frame>()
      .width(Math.max(320, box.clientWidth))
      .cellHeight(19)
      .minFrameSize(0.6)
      .transitionDuration(0) // only what a person does moves, not the first picture
      .inverted(inverted)
      .resetHeightOnZoom(true)
      .sort((a, b) => (this.name(a.data) < this.name(b.data) ? -1 : 1))
      .getName((d) => this.label(d.data))
      // In a difference a frame is as wide as the larger of its two values.
      .getValue((d) => (this.page.before ? this.width(d) : d.value))
      .setLabelHandler((d) => this.describe(d))
      .setColorMapper((d) => this.fill(d))
      .setSearchMatch((d, term) => this.matches(d, term))
      .setSearchHandler((_found, sum) => this.showSearch(sum))
      .setDetailsHandler((text) => { this.part("details").textContent = text ?? this.summary(); })
      .onClick(click);
    chart(select(box).datum(root));
    const nodes = select<HTMLElement, FrameNode<Frame>>(box).datum();
    settle(box);
    chart.transitionDuration(still ? 0 : 250);
    this.charts.push(chart);
    return { chart, nodes };
  }

  // -- by function --------------------------------------------------------------------------------

  private drawFunctions(): void {
    const sums = sumFunctions(this.page, this.choice);
    if (!sums.some((sum) => sum.frame === this.state.fn)) {
      this.state.fn = sums.reduce((a, b) => (b.own > a.own ? b : a), sums[0] ?? { frame: -1, own: 0, total: 0 }).frame;
    }
    this.functionTable(sums);
    if (this.state.fn < 0) return;
    const { callers, callees } = sandwichOf(this.page, this.choice, this.state.fn);
    this.part("function-name").textContent = `${this.label(callees)}: ${amount(this.unit(), callees.value)}, ${percent(callees.value, this.root.value)}`;
    const click = (d: FrameNode<Frame>) => { if (d.data.frame !== this.state.fn) this.chooseFunction(d.data.frame); };
    this.chartOf(this.part("callers"), callers, false, click);
    this.chartOf(this.part("callees"), callees, true, click);
  }

  private chooseFunction(frame: number): void {
    this.state.fn = frame;
    this.draw();
    this.remember();
  }

  private functionTable(sums: FunctionSum[]): void {
    const shown = sums.filter((sum) => !this.state.search || this.finds(this.page.frames.name[sum.frame] ?? "", this.state.search));
    shown.sort((a, b) => b[this.sortBy] - a[this.sortBy]);
    const head = (by: "own" | "total", text: string) => {
      const button = h("button", { type: "button" }, text);
      button.onclick = () => { this.sortBy = by; this.functionTable(sums); };
      return h("th", { scope: "col", class: "number", "aria-sort": this.sortBy === by ? "descending" : undefined }, button);
    };
    const value = (v: number) => h("td", { class: "number" }, amount(this.unit(), v), h("small", {}, percent(v, this.root.value)));
    const rows = shown.slice(0, MOST_FUNCTIONS).map((sum) => {
      const name = this.page.frames.name[sum.frame] ?? "";
      const button = h("button", { type: "button", class: "link", title: name.slice(0, 2000) }, (this.page.frames.label[sum.frame] ?? "").slice(0, 120));
      button.onclick = () => this.chooseFunction(sum.frame);
      return h("tr", { class: sum.frame === this.state.fn ? "chosen" : undefined }, h("td", {}, button), value(sum.own), value(sum.total));
    });
    const more = shown.length - rows.length;
    this.part("function-table").replaceChildren(
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "function"), head("own", "itself"), head("total", "in all"))), h("tbody", {}, ...rows)),
      more > 0 ? h("p", { class: "note" }, `${more.toLocaleString("en-US")} more: search for them.`) : "");
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
    return term !== "" && node.data.frame >= 0 && this.finds(this.name(node.data), term);
  }

  private finds(name: string, term: string): boolean {
    try {
      return new RegExp(term, "i").test(name);
    } catch {
      return name.toLowerCase().includes(term.toLowerCase()); // not yet a whole expression
    }
  }

  search(term: string): void {
    this.state.search = term;
    this.part("found").textContent = "";
    if (this.state.order === "function") this.functionTable(sumFunctions(this.page, this.choice));
    else if (term) this.chart?.search(term);
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
    if (this.state.order === "function") return;
    this.chart?.resetZoom();
    this.state.zoom = "";
    this.selected = this.nodes;
    this.part("crumbs").replaceChildren();
    this.remember();
  }

  /** Arrow keys: to the parent, the largest child, the neighbours. */
  move(key: string): void {
    const at = this.selected ?? this.nodes;
    if (!at || this.state.order === "function") return;
    const largest = (nodes: FrameNode<Frame>[] | undefined) =>
      nodes?.reduce((a, b) => (b.data.value > a.data.value ? b : a));
    const siblings = [...(at.parent?.children ?? [at])].sort((a, b) =>
      this.name(a.data) < this.name(b.data) ? -1 : 1);
    const place = siblings.indexOf(at);
    const inwards = this.state.upward ? "ArrowUp" : "ArrowDown";
    const outwards = this.state.upward ? "ArrowDown" : "ArrowUp";
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

  /** How the CPU's stacks were joined to the device's work, where there is some. */
  private grades(): void {
    const { layers, frames } = this.page;
    if (!frames.layer.some((place) => DEVICE.has(layers[place]?.kind ?? ""))) {
      this.part("grades").textContent = "";
      return;
    }
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
