// The page's data: what sightline/views/html/page.py writes, schema "sightline-page/2".

import type { Page as FlamePage } from "../flame/data";
import type { Entry, Numbers } from "./columns";

export const SCHEMA = "sightline-page/2";

export type Cell = string | number | boolean | null;

export interface TableColumn {
  name: string;
  label: string;
  doc: string;
  unit: string;
  text?: boolean;
  values: Cell[];
  /** Short forms of long names. */
  labels?: (string | null)[];
  /** Whether values are drawn as bars as well. */
  heat?: boolean;
}

export interface TableBlock {
  kind: "table";
  title: string;
  columns: TableColumn[];
  sort: string | null;
  action: "kernel" | "range" | null;
  rows: number;
  of: number;
  more: string;
  /** Where a row is in the run, unless its columns start_ns and end_ns say so. */
  from?: number[];
  to?: number[];
}

export interface SharesBlock {
  kind: "shares";
  title: string;
  parts: string[];
  classes: string[];
  labels: string[];
  whole: number[];
  values: number[][];
  same_scale: boolean;
}

/** Spans of time, coloured by their kind: in one line, or in rows with labels. */
export interface StripBlock {
  kind: "strip";
  title: string;
  /** The row of each span, and the rows' labels. */
  rows?: number[];
  labels?: string[];
  /** Whether the spans are moments of the run, which the timeline shows. */
  moments: boolean;
  note: string;
  kinds: string[];
  of: number[];
  start: number[];
  end: number[];
  words: string[];
}

export interface Series { label: string; t: number[]; low: number[]; high: number[] }

export interface LinesBlock {
  kind: "lines";
  title: string;
  unit: string;
  series: Series[];
  note: string;
  /** In the timeline: under which heading it stands. */
  group?: string;
}

export interface Card {
  rule: string; title: string; severity: string; confidence: string; summary: string;
  cost_ns: number | null; cost_bytes: number | null; gain_bytes: number | null; cost_j: number | null; gain_j: number | null; cost_pct: number | null; gain_ns: number | null; gain_pct: number | null; of: string;
  evidence: string[]; cause: string; fix: string; verify: string; method: string;
  sources: string[]; limits: string[]; command: string; again: string; kernel: string;
  /** A remark that comes before all gains. */
  leads: boolean;
  where: { spark: number[]; count: number; drawn: boolean };
}

export interface Track {
  rank: number;
  device: number | null;
  kind: "stream" | "ranges" | "thread";
  group: string;
  label: string;
}

/** A finding's places, and how many there are of it at all: `starts` are counted from the place before. Or they are
 * events, whose places among all are `at`. `ranks` are plus 1, and 0 where one is not known; of events it is said
 * whether their ranks matter. */
export type Mark = {
  finding: number; title: string; summary: string; fix: string; count: number;
} & ({ starts: Numbers; lengths: Numbers; ranks?: Numbers } | { at: Numbers; by_rank: boolean });

/** Pieces of the critical path: `gaps` from the end of the piece before, `at` the place of its event plus 1, 0 where
 * it is not known. */
export interface PathBlock {
  gaps: Numbers; lengths: Numbers; part: Numbers; parts: string[]; name: Numbers; names: string[]; at: Numbers;
}

export interface TimelineBlock {
  kind: "timeline";
  tracks: Track[];
  lanes: { track: number[]; lane: number[]; n: number[] };
  columns: Record<string, Entry>;
  /** For each lane what its events' starts are counted from: timeline/unpack.ts. Of embedded events only. */
  bases?: number[];
  names: string[];
  /** Short forms, empty in the file where the name is its own. */
  labels: string[];
  details: string[];
  /** For each name the places of its details: what the column `detail` counts. Of embedded events only. */
  details_of?: number[][];
  classes: string[];
  in_tables: number;
  merged: number;
  counters: LinesBlock[];
  marks: Mark[];
  path?: PathBlock | null;
  windows: { rank: number; device: number; start: number; end: number }[];
  /** From a server: events come by range, `totals` of names and the `overview` with the page. */
  served?: boolean;
  totals?: { n: number[]; ns: number[] };
  overview?: number[][];
}

/** What comes of a setting: steps from each x on, and where the setting is now. */
export interface Curve { label: string; x: number[]; y: number[]; end: number; current: [number, number] }

export interface SqlBlock {
  kind: "sql";
  examples: string[];
  tables: { name: string; doc: string; columns: [string, string][] }[];
}

/** Blocks of memory over time: moments with what was allocated, and the blocks from column to column. */
export interface MemoryBlock {
  kind: "memory";
  moments: number[]; allocated: number[]; rest: number[]; rest_name: string; events: number;
  kinds: string[];
  first: number[]; last: number[]; bytes: number[]; of: number[]; stack: number[];
  stacks: string[][];
}

/** Blocks by the row of their segment and their place in it. */
export interface SegmentsBlock {
  kind: "segments";
  names: string[]; bytes: number[]; left: number;
  kinds: string[];
  row: number[]; at: number[]; size: number[]; of: number[]; count: number[]; stack: number[];
  stacks: string[][];
}

/** Rows of percent by time; `why` names a row that stands above the others. */
export interface HeatBlock {
  kind: "heat";
  title: string;
  bin_ns: number;
  rows: { label: string; why: string; values: number[] }[];
}

/** Units one behind another, how busy each is, and what moves on the way into each but the first. */
export interface FlowBlock {
  kind: "flow";
  title: string;
  units: { label: string; pct: number | null; notes: string[] }[];
  links: string[];
}

export type Block =
  | HeatBlock
  | MemoryBlock | SegmentsBlock
  | SqlBlock
  | { kind: "choice"; label: string; options: { label: string; blocks: Block[] }[] }
  | { kind: "curves"; title: string; curves: Curve[] }
  | TableBlock | SharesBlock | StripBlock | LinesBlock | TimelineBlock
  | { kind: "text"; text: string; role: "lead" | "note" }
  | { kind: "fold"; title: string; text: string }
  | { kind: "group"; title: string; blocks: Block[] }
  | FlowBlock
  | { kind: "list"; title: string; items: string[] }
  | { kind: "findings"; cards: Card[] }
  | { kind: "limits"; title: string; rows: { severity: string; text: string; remedy: string }[] }
  | { kind: "image"; svg: string; dark: string; alt: string }
  | { kind: "flame"; page: FlamePage };

/** `blocks` is null where a server has them: they come when the panel is opened. */
export interface PanelData { name: string; title: string; blocks: Block[] | null }

export interface PageData {
  schema: string;
  version: string;
  origin_ns: string;
  length_ns: number;
  panels: PanelData[];
}

/** Complain of data that this page was not made for. */
export function checked(page: PageData): PageData {
  if (page.schema !== SCHEMA) throw new Error(`this page shows ${SCHEMA}, its data is ${page.schema}`);
  if (!Array.isArray(page.panels) || !page.panels.length) throw new Error("the data has no panels");
  return page;
}
