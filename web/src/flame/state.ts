// What is chosen of a flame graph, what its page does for it, and the text of an address that keeps it.

import type { Page } from "./data";

export const WEIGHTS: Record<string, string> = {
  gpu_time_ns: "GPU time",
  exposed_ns: "GPU time, nothing beside it",
  gpu_idle_ns: "GPU idle time",
  cpu_time_ns: "CPU time",
  samples: "samples",
  latency_samples: "samples, nothing issued",
  bytes: "bytes copied",
};

export interface State {
  weight: string;
  order: "how" | "why";
  icicle: boolean;
  palette: string;
  dark: boolean;
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
  dark(on: boolean): void;
}

/** The choice as the text of an address. */
export function address(s: State): string {
  const parts = new URLSearchParams({ w: s.weight, o: s.order });
  if (s.icicle) parts.set("i", "1");
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
  const wanted = parts.get("w") ?? "";
  return {
    weight: weights.includes(wanted) ? wanted : (weights[0] ?? ""),
    order: parts.get("o") === "why" ? "why" : "how",
    icicle: parts.get("i") === "1",
    palette: parts.get("p") ?? "gpu",
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    merge: parts.get("m") === "1",
    hidden: new Set(numbers("h")),
    only: numbers("f"),
    search: parts.get("s") ?? "",
    zoom: parts.get("z") ?? "",
  };
}
