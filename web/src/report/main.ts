// The report's page: panels in a list, one shown at a time, and what is chosen kept in the address.

import { amount, cell, count } from "../shared/format";
import { unpackJson } from "../shared/pack";
import { type Tools, draw } from "./blocks";
import { histogram } from "./charts";
import { Packed } from "./columns";
import { type Block, type Mark, type PageData, type PanelData, type TimelineBlock, checked } from "./data";
import { copy, copyButton, h, say } from "../shared/dom";
import { watchMenus } from "../shared/menus";
import { watchTheme } from "../shared/theme";
import "./style.css";
import { unpackMark } from "./timeline/places";
import { Served, ask } from "./timeline/served";
import { Embedded, type Source } from "./timeline/source";
import { Timeline } from "./timeline/view";

class Report {
  private readonly sections = new Map<string, HTMLElement>();
  private readonly links = new Map<string, HTMLAnchorElement>();
  private readonly main = document.getElementById("main-start")!;
  private current = "";
  private timer = 0;
  private timeline: Timeline | undefined;
  private readonly whenLoaded: Promise<Timeline | undefined>;

  constructor(private readonly data: PageData) {
    const links = document.querySelectorAll<HTMLAnchorElement>("#panels a"); // painted before the data was read
    data.panels.forEach((panel, place) => {
      const link = links[place]!;
      link.onclick = (event) => { event.preventDefault(); this.open(panel.name, true); };
      this.links.set(panel.name, link);
      const heading = h("h2", { id: `heading-${panel.name}`, tabindex: -1 }, panel.title);
      this.sections.set(panel.name, h("section", { class: "panel", id: `panel-${panel.name}`, "aria-labelledby": heading.id, hidden: true }, heading));
    });
    this.main.replaceChildren(...this.sections.values());
    this.whenLoaded = this.load();
  }

  /** The timeline's columns: read after the first panel has been painted. */
  private async load(): Promise<Timeline | undefined> {
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const element = document.getElementById("page-columns")!;
    const block = this.data.panels.flatMap((p) => p.blocks ?? []).find((b): b is TimelineBlock => b.kind === "timeline");
    if (!block) return undefined;
    block.labels = block.labels.map((label, i) => label || block.names[i]!);
    const source: Source = block.served
      ? new Served(block, this.data.length_ns) : await Embedded.load(block, new Packed(element));
    this.timeline = new Timeline(source, Math.max(1, this.data.length_ns), () => this.remember());
    if (block.served) this.later(this.timeline);
    return this.timeline;
  }

  /** Marks of the findings, which a server makes while one looks. */
  private later(timeline: Timeline): void {
    void ask("marks").then(async (found) => {
      const marks = (await found.json()) as Mark[];
      timeline.setWalks(await Promise.all(marks.map((mark) => unpackMark(mark))));
    })
      .catch(() => undefined); // the summary says why there are none
  }

  private readonly tools: Tools = {
    length: 0,
    showFinding: (place) => this.withTimeline((t) => t.showFinding(place)),
    showRange: (from, to) => this.withTimeline((t) => t.showRange(from, to)),
    instances: (name) => this.instances(name),
    listens: (panel) => this.current === panel,
    timeline: () => {
      if (this.timeline) return h("div", { class: "timeline-place" }, this.timeline.element);
      const holder = h("div", { class: "timeline-place" }, h("p", { class: "note" }, "Loading the events …"));
      void this.whenLoaded.then((t) => { if (t) holder.replaceChildren(t.element); })
        .catch((error: unknown) => { holder.textContent = `The timeline cannot be shown: ${String(error)}`; });
      return holder;
    },
  };

  private withTimeline(act: (t: Timeline) => void): void {
    this.open("timeline", true);
    void this.whenLoaded.then((t) => {
      if (!t) return;
      // Laid out first, since a range is fitted to the width.
      requestAnimationFrame(() => { act(t); t.canvas.focus({ preventScroll: true }); });
    });
  }

  private instances(name: string): HTMLElement {
    const holder = h("div", {}, h("p", { class: "note" }, "Loading the events …"));
    void this.whenLoaded.then(async (t) => {
      const found = t ? await t.source.instances(name) : null;
      if (!t || !found) {
        holder.replaceChildren(h("p", { class: "note" }, "This page has no instances of it."));
        return;
      }
      const show = h("button", { type: "button", class: "primary" }, "Show the longest in the timeline");
      show.onclick = () => this.withTimeline((shown) => { void shown.choose(found.longest); });
      const title = `${count(found.count)} ${found.count === 1 ? "instance" : "instances"}`;
      holder.replaceChildren(h("h3", {}, title), h("p", { class: "name" }, name.length > 600 ? `${name.slice(0, 600)}…` : name), copyButton(() => name, "Copy name", "Name"),
        found.count ? h("p", { class: "note" }, `${amount("ns", found.low)} to ${amount("ns", found.high)}`) : "",
        ...(found.count ? [histogram(found, `${title} by duration`)] : []),
        found.merged ? h("p", { class: "note" }, `Not counted: ${count(found.merged)} merged events.`) : "",
        found.longest ? show : "");
    }).catch((error: unknown) => { holder.textContent = `The instances cannot be shown: ${String(error)}`; });
    return holder;
  }

  private render(panel: PanelData): HTMLElement {
    const section = this.sections.get(panel.name)!;
    if (section.dataset["drawn"]) return section;
    section.dataset["drawn"] = "yes";
    this.tools.length = this.data.length_ns;
    if (panel.blocks) for (const block of panel.blocks) section.append(draw(block, this.tools));
    else void this.fetched(panel, section);
    return section;
  }

  /** A panel that the server makes, of all of the run or of a range of it. */
  private async fetched(panel: PanelData, section: HTMLElement, range?: [number, number]): Promise<void> {
    const note = h("p", { class: "note" }, "The server is computing this panel …");
    section.replaceChildren(section.firstElementChild!, note);
    const query: Record<string, string | number> = range ? { name: panel.name, from: range[0], to: range[1] } : { name: panel.name };
    let blocks: (HTMLElement | SVGElement)[] = [], large = range !== undefined;
    try {
      const found = (await (await ask("panel", query)).json()) as { blocks: Block[]; large: boolean };
      blocks = found.blocks.map((block) => draw(block, this.tools));
      large = found.large;
      section.dataset["fetched"] = "yes";
    } catch (error) {
      note.textContent = `This panel cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
      blocks = [note];
      if (!range) delete section.dataset["drawn"];
      section.dataset["fetched"] = "failed";
    }
    section.replaceChildren(section.firstElementChild!, ...(large ? [this.ranges(panel, section, range)] : []), ...blocks);
  }

  /** What a panel of a large run may be made of. */
  private ranges(panel: PanelData, section: HTMLElement, range?: [number, number]): HTMLElement {
    const here = h("button", { type: "button", title: "Make this panel of what the timeline shows" }, "Use the range in the timeline");
    here.onclick = () => void this.whenLoaded.then((timeline) => {
      const [from, to] = timeline?.lookedAt ?? [0, this.data.length_ns];
      void this.fetched(panel, section, [Math.max(0, Math.floor(from)), Math.min(this.data.length_ns, Math.ceil(to)) + 1]);
    });
    const all = h("button", { type: "button" }, "Back");
    all.onclick = () => void this.fetched(panel, section);
    return h("div", { class: "controls" }, here, range ? all : null);
  }

  open(name: string, focus = false): void {
    const panel = this.data.panels.find((p) => p.name === name) ?? this.data.panels[0]!;
    this.render(panel);
    this.current = panel.name;
    for (const [other, section] of this.sections) section.hidden = other !== panel.name;
    for (const [other, link] of this.links) {
      if (other === panel.name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.body.dataset["panel"] = panel.name;
    if (focus) {
      window.scrollTo(0, 0);
      document.getElementById(`heading-${panel.name}`)?.focus({ preventScroll: true });
    }
    // On a phone the links are one row, of which a link to a panel may show the first few alone.
    this.links.get(panel.name)?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.remember();
  }

  private remember(): void {
    clearTimeout(this.timer);
    // Not with each frame of a pan: browsers allow only so many changes of the address.
    this.timer = window.setTimeout(() => history.replaceState(null, "", `#${this.address()}`), 200);
  }

  private address(): string {
    return new URLSearchParams({ p: this.current, ...(this.timeline?.choice ?? {}) }).toString();
  }

  async start(): Promise<void> {
    const parts = new URLSearchParams(location.hash.slice(1));
    this.open(parts.get("p") ?? "");
    document.getElementById("copy-link")!.onclick = () => {
      history.replaceState(null, "", `#${this.address()}`);
      void copy(location.href, "Link");
    };
    this.themes();
    watchMenus();
    document.addEventListener("keydown", (event) => this.key(event, true));
    document.addEventListener("keyup", (event) => this.key(event, false));
    window.addEventListener("hashchange", () => {
      const wanted = new URLSearchParams(location.hash.slice(1));
      this.open(wanted.get("p") ?? this.current);
      void this.timeline?.restore(wanted);
    });
    window.addEventListener("beforeprint", () => this.print(true));
    window.addEventListener("afterprint", () => this.print(false));
    document.body.dataset["ready"] = "yes";
    const timeline = await this.whenLoaded;
    await timeline?.restore(parts);
    document.body.dataset["timeline"] = timeline ? "yes" : "none";
    // What the tests count and measure; a person's console may use it as well.
    Object.assign(window, { sightline: { timeline, format: { amount, cell } } });
  }

  /** Paper has one theme and one width, and takes what is drawn when the event ends. */
  private print(on: boolean): void {
    const root = document.documentElement;
    if (on) {
      root.dataset["screenTheme"] ??= root.dataset["theme"] ?? "light";
      for (const panel of this.data.panels) this.render(panel).hidden = false;
    }
    root.dataset["theme"] = on ? "light" : (root.dataset["screenTheme"] ?? root.dataset["theme"]);
    if (!on) delete root.dataset["screenTheme"];
    document.body.classList.toggle("printing", on);
    // Evidence and notes: nobody unfolds paper. What a panel folds as a whole stays so.
    const folds = on ? "details:not(.menu, .group, [open])" : "details[data-printed]";
    for (const fold of document.querySelectorAll<HTMLDetailsElement>(folds)) {
      fold.open = on;
      fold.toggleAttribute("data-printed", on);
    }
    this.themeChanged();
    if (on) this.timeline?.frame();
    else this.open(this.current);
    window.dispatchEvent(new Event("sightline-resize"));
  }

  private key(event: KeyboardEvent, down: boolean): void {
    const target = event.target as HTMLElement;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox";
    if (this.current !== "timeline" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    // Space and Enter belong to what has the focus, and arrows to what scrolls.
    if (event.key.startsWith("Arrow") && target !== this.timeline?.canvas) return;
    if (this.timeline?.key(event, down)) event.preventDefault();
  }

  private themes(): void {
    watchTheme(document.getElementById("theme")!, () => this.themeChanged());
  }

  private themeChanged(): void {
    this.timeline?.themeChanged();
    window.dispatchEvent(new Event("sightline-theme"));
  }
}

async function start(): Promise<void> {
  try {
    const element = document.getElementById("page-data")!;
    const data = checked(await unpackJson<PageData>(element.textContent ?? ""));
    element.textContent = "";
    await new Report(data).start();
  } catch (error) {
    document.getElementById("main-start")!.textContent = `The report cannot be shown: ${String(error)}`;
    document.body.dataset["ready"] = "failed";
    say("The report cannot be shown");
    throw error;
  }
}

void start();
