// A table that sorts, filters and copies. Rows beyond the first are drawn when asked for.

import { cell } from "../shared/format";
import type { Cell, TableBlock, TableColumn } from "./data";
import { breakable, copyButton, h, isNarrow, say } from "../shared/dom";

const FIRST = 30; // rows at first, and on paper, as style.css has it
const COLUMNS = 16; // on paper, as style.css has it: more would be cut at its edge
const LONG = 28; // letters of a name that may go on in the next line
let made = 0;

export interface Actions {
  /** Show a range of the run in the timeline. */
  showRange(from: number, to: number): void;
  /** The instances of a kernel: an element to put below the table. */
  instances(name: string): HTMLElement;
}

export function table(block: TableBlock, actions: Actions): HTMLElement {
  return new Table(block, actions).element;
}

/** The columns for a phone: what a row is, then the number that counts, and last what is the same everywhere. */
export function arrangeNarrow(block: TableBlock): TableColumn[] {
  const varies = (c: TableColumn) => block.rows < 2 || c.values.some((value) => value !== c.values[0]);
  const first = block.columns[0];
  // A number that no two rows share, as a rank's or a step's, names them.
  const isKey = first !== undefined && block.rows > 1 && new Set(first.values).size === block.rows;
  const name = (isKey ? first : block.columns.find((c) => c.text && varies(c))) ?? first;
  const counts = block.columns.find((c) => c.name === block.sort && !c.text)
    ?? block.columns.find((c) => c.heat) ?? block.columns.find((c) => /^(ns|bytes)$/.test(c.unit));
  const place = (c: TableColumn) => (c === name ? 0 : c === counts ? 1 : varies(c) ? 2 : 3);
  return [...block.columns].sort((a, b) => place(a) - place(b));
}

/** The columns for a wide screen: a rank or a device that all rows share answers nothing, and comes last. */
export function arrangeWide(block: TableBlock): TableColumn[] {
  const same = (c: TableColumn) => block.rows > 1 && /^(rank|device_id)$/.test(c.name) && c.values.every((value) => value === c.values[0]);
  return [...block.columns.filter((c) => !same(c)), ...block.columns.filter(same)];
}

class Table {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly heads: HTMLElement[] = [];
  /** What a click on a row opens, beside the rows where there is room. */
  private readonly beside: HTMLElement;
  private chosen = -1;
  private readonly mosts = new Map<TableColumn, number>();
  private readonly foot = h("p", { class: "note" });
  private order: number[];
  private sorted: { column: number; down: boolean } | undefined;
  private filter = "";
  private limit = FIRST;
  private fullNames = false;

  private readonly block: TableBlock;

  constructor(given_: TableBlock, private readonly actions: Actions) {
    const block = { ...given_, columns: isNarrow() ? arrangeNarrow(given_) : arrangeWide(given_) };
    this.block = block;
    this.order = Array.from({ length: block.rows }, (_, i) => i);
    const id = `table-${made++}`;
    const caption = h("h3", { id }, block.title);
    this.beside = h("aside", { class: "instances", "aria-label": `Instances: ${block.title}` });
    const search = h("input", {
      type: "search", placeholder: "Filter", "aria-label": `Filter ${block.title}`,
    });
    search.oninput = () => { this.filter = search.value.toLowerCase(); this.limit = FIRST; this.draw(); };
    const head = h("tr");
    block.columns.forEach((column, place) => head.append(this.head(column, place)));
    if (block.action === "range") head.append(h("th", { scope: "col" }, h("span", { class: "hidden-visually" }, "timeline")));
    const given = block.columns.findIndex((c) => c.name === block.sort);
    if (given >= 0) this.sorted = { column: given, down: true };
    const tools = h("div", { class: "tools" },
      block.rows > 8 ? search : null,
      block.columns.some((c) => c.labels?.some((label, row) => label !== c.values[row])) ? this.nameButton() : null,
      copyButton(() => this.asText(), "Copy table", block.title));
    const scroll = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${block.title}` },
      h("table", {}, h("thead", {}, head), this.body));
    this.element = h("section", { class: "table" }, h("div", { class: "caption" }, caption, tools),
      h("div", { class: "split" }, h("div", {}, scroll, this.foot), this.beside));
    this.marks();
    this.draw();
  }

  /** Kernels by their short names, or as they were recorded. */
  private nameButton(): HTMLElement {
    const button = h("button", { type: "button", class: "small", "aria-pressed": "false" }, "Full names");
    button.onclick = () => {
      this.fullNames = !this.fullNames;
      button.setAttribute("aria-pressed", String(this.fullNames));
      this.draw();
    };
    return button;
  }

  private head(column: TableColumn, place: number): HTMLElement {
    const button = h("button", { type: "button", title: column.doc }, column.label);
    button.onclick = () => {
      const down = this.sorted?.column === place ? !this.sorted.down : !column.text;
      this.sorted = { column: place, down };
      this.sort();
      this.marks();
      this.draw();
      say(`sorted by ${column.label}, ${down ? "largest first" : "smallest first"}`);
    };
    const th = h("th", { scope: "col", class: column.text ? "text" : "number" }, button);
    this.heads.push(th);
    return th;
  }

  private marks(): void {
    this.heads.forEach((th, place) => {
      const here = this.sorted?.column === place;
      if (here) th.setAttribute("aria-sort", this.sorted!.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
  }

  private sort(): void {
    const { column, down } = this.sorted!;
    const values = this.block.columns[column]!.values;
    this.order.sort((a, b) => {
      const x = values[a] ?? null, y = values[b] ?? null;
      if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
      const less = x < y ? -1 : x > y ? 1 : 0;
      return (down ? -less : less) || a - b;
    });
  }

  private kept(): number[] {
    if (!this.filter) return this.order;
    const texts = this.block.columns.filter((c) => c.text);
    return this.order.filter((row) => texts.some((c) =>
      String(c.values[row] ?? "").toLowerCase().includes(this.filter)));
  }

  private draw(): void {
    const kept = this.kept();
    const rows = kept.slice(0, this.limit).map((row) => this.row(row));
    this.body.replaceChildren(...rows);
    const { block } = this;
    const texts: (Node | string)[] = [];
    if (kept.length > this.limit) {
      const more = h("button", { type: "button", class: "small" }, `Show all ${kept.length.toLocaleString("en-US")}`);
      more.onclick = () => { this.limit = kept.length; this.draw(); };
      texts.push(`${this.limit} of ${kept.length.toLocaleString("en-US")} rows. `, more);
    }
    if (block.of > block.rows) {
      texts.push(` The page holds the first ${block.rows.toLocaleString("en-US")} of ` +
        `${block.of.toLocaleString("en-US")}; all:  ${block.more}`);
    }
    if (this.filter && !kept.length) texts.push("No row matches.");
    const most = Math.max(kept.length, this.filter ? 0 : block.of);
    const cut = [[rows.length > FIRST, FIRST, most, "rows"], [this.block.columns.length > COLUMNS, COLUMNS, this.block.columns.length, "columns"]] as const;
    const left = cut.filter(([is]) => is).map(([, first, of, what]) => `the first ${first} of ${of.toLocaleString("en-US")} ${what}`).join(", ");
    const paper = left ? `${left[0]!.toUpperCase()}${left.slice(1)}.` : "";
    this.foot.replaceChildren(h("span", { class: paper ? "screen" : undefined }, ...texts), h("span", { class: "paper" }, paper));
  }

  private row(row: number): HTMLElement {
    const tr = h("tr", { class: row === this.chosen ? "chosen" : undefined });
    for (const column of this.block.columns) {
      const content = this.content(column, row);
      const long = column.text && (typeof content === "string" ? content : (content.textContent ?? "")).length > LONG;
      const td = h("td", { class: column.text ? (long ? "text long" : "text") : "number" }, content);
      const value = column.values[row];
      if (column.heat && typeof value === "number") {
        td.classList.add("heat");
        td.style.setProperty("--heat", `${((100 * value) / this.most(column)).toFixed(1)}%`);
      }
      tr.append(td);
    }
    if (this.block.action === "range") {
      const show = h("button", { type: "button", class: "small" }, "Show");
      show.setAttribute("aria-label", `Show row ${row + 1} in the timeline`);
      const moments = (name: string) => this.block.columns.find((c) => c.name === name)!.values as number[];
      show.onclick = () => this.actions.showRange((this.block.from ?? moments("start_ns"))[row]!, (this.block.to ?? moments("end_ns"))[row]!);
      tr.append(h("td", {}, show));
    }
    return tr;
  }

  /** What a full bar of a column stands for: its largest value, and of a lone one 100 %. */
  private most(column: TableColumn): number {
    if (this.block.rows === 1 && column.unit === "%") return 100;
    let most = this.mosts.get(column);
    if (most === undefined) {
      most = column.values.reduce<number>((a, v) => (typeof v === "number" && v > a ? v : a), 0) || 1;
      this.mosts.set(column, most);
    }
    return most;
  }

  private content(column: TableColumn, row: number): Node | string {
    const value = column.values[row] ?? null;
    if (value === null) return "–";
    const full = text(column, value);
    if (this.fullNames && column.labels) return this.named(column, row, value, full, full);
    const short = column.labels?.[row] ?? full;
    // Sentences are read to their end; names are known by both of theirs.
    const sentence = /^(text|remedy|row|doc|source)$/.test(column.name) && short.length < 1000;
    const cut = short.length > 90 && !sentence ? `${short.slice(0, 60)}…${short.slice(-28)}` : short;
    return this.named(column, row, value, full, cut);
  }

  private named(column: TableColumn, row: number, value: unknown, full: string, cut: string): Node | string {
    if (this.block.action === "kernel" && column.name === "name") {
      const open = h("button", { type: "button", class: "link", title: full.slice(0, 2000) }, ...(cut.length > LONG ? breakable(cut) : [cut]));
      open.onclick = () => this.choose(row, String(value));
      return open;
    }
    if (cut === full) return column.text && full.length > LONG ? h("span", {}, ...breakable(full)) : full;
    return h("span", { title: full.slice(0, 2000) }, ...(cut.length > LONG ? breakable(cut) : [cut]));
  }

  /** Open a row's instances beside the rows; -1 closes them. */
  private choose(row: number, name: string): void {
    this.chosen = row;
    this.draw();
    if (row < 0) { this.beside.replaceChildren(); return; }
    const close = h("button", { type: "button", class: "small close" }, "Close");
    close.onclick = () => this.choose(-1, "");
    this.beside.replaceChildren(close, this.actions.instances(name));
    this.beside.scrollIntoView({ block: "nearest" });
  }

  /** Tab-separated, numbers as they are: what a spreadsheet takes. */
  private asText(): string {
    const { columns } = this.block;
    const clean = (value: Cell) => (value === null ? "" : String(value).replace(/[\t\n]/g, " "));
    return [columns.map((c) => c.name).join("\t"),
      ...this.kept().map((row) => columns.map((c) => clean(c.values[row] ?? null)).join("\t"))].join("\n");
  }
}

function text(column: TableColumn, value: Exclude<Cell, null>): string {
  if (typeof value === "number") return cell(column.unit, value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value;
}
