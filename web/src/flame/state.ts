// What is chosen of a flame graph, what its page does for it, and the text of an address that keeps it.

import type { Page } from "./data";

export const WEIGHTS: Record<string, string> = {
  gpu_time_ns: "GPU time",
  exposed_ns: "exposed GPU time",
  gpu_idle_ns: "GPU idle time",
  cpu_time_ns: "CPU time",
  samples: "samples",
  latency_samples: "samples without an issue",
  bytes: "bytes copied",
};

export interface State {
  weight: string;
  order: "how" | "why" | "function";
  /** The frame that is shown by function; -1 before one is chosen. */
  fn: number;
  /** Ranks, threads, steps and instances of a layer by themselves. */
  split: boolean;
  /** The root stands at the bottom. */
  upward: boolean;
  palette: string;
  merge: boolean;
  hidden: Set<number>;
  only: number[];
  search: string;
  zoom: string;
}

/** What the page around the graph does for it. */
export interface Around {
  /** The parts of the graph, by the ids of page.html. */
  part<T extends HTMLElement>(id: string): T;
  /** Keep the choice, as the text of an address. */
  remember(choice: string): void;
  /** Whether keys are meant for the graph now. */
  listens(): boolean;
}

/** The choice as the text of an address. */
export function address(s: State): string {
  const parts = new URLSearchParams({ w: s.weight, o: s.order });
  if (s.upward) parts.set("u", "1");
  if (s.split) parts.set("x", "1");
  if (s.order === "function" && s.fn >= 0) parts.set("n", String(s.fn));
  if (s.palette !== "gpu") parts.set("p", s.palette);
  if (s.merge) parts.set("m", "1");
  if (s.hidden.size) parts.set("h", [...s.hidden].join("."));
  if (s.only.length) parts.set("f", s.only.join("."));
  if (s.search) parts.set("s", s.search);
  if (s.zoom) parts.set("z", s.zoom);
  return parts.toString();
}

/** The choice that an address keeps, or the first picture of a page. */
export function remembered(page: Page, choice: string): State {
  const parts = new URLSearchParams(choice);
  const numbers = (key: string) => (parts.get(key) ?? "").split(".").filter(Boolean).map(Number);
  const weights = Object.keys(page.stacks.values);
  const wanted = parts.get("w") ?? "", order = parts.get("o"), fn = parts.has("n") ? Number(parts.get("n")) : -1;
  return {
    weight: weights.includes(wanted) ? wanted : (weights[0] ?? ""),
    order: order === "why" || order === "function" ? order : "how",
    fn: Number.isInteger(fn) && fn >= 0 && fn < page.frames.name.length ? fn : -1,
    split: parts.get("x") === "1",
    upward: parts.get("u") === "1",
    palette: parts.get("p") ?? "gpu",
    merge: parts.get("m") === "1",
    hidden: new Set(numbers("h")),
    only: numbers("f"),
    search: parts.get("s") ?? "",
    zoom: parts.get("z") ?? "",
  };
}
