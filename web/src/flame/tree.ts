// Stacks to a tree, for one weight, one order and the chosen layers. Sums are exact up to 2^53.

import type { Page } from "./data";

export interface Frame {
  /** Place in page.frames; -1 for the root. */
  frame: number;
  value: number;
  own: number;
  before: number;
  children?: Frame[];
  fade?: boolean;
  hide?: boolean;
}

export interface Choice {
  weight: string;
  order: "how" | "why" | "function";
  /** Places of the layers that are shown. */
  layers: Set<number>;
  /** Only stacks that hold all of these frames. */
  only: number[];
  /** Ranks, threads, steps and instances of a layer by themselves. */
  split: boolean;
  /** A frame directly below an equal one is left out. */
  mergeRecursion: boolean;
}

const WHY = ["stall_class", "stall_reason", "instruction", "kernel", "gpu_line", "gpu_file", "device"];

/** The frames of a stack, root first, as places in page.frames. */
export function pathOf(page: Page, stack: number): number[] {
  const path: number[] = [];
  let node = page.stacks.node[stack] ?? 0;
  while (node > 0) {
    path.push(page.nodes.frame[node] ?? 0);
    node = page.nodes.parent[node] ?? 0;
  }
  return path.reverse();
}

/** The reason first, then what had it, then who called it, innermost first. */
function why(page: Page, path: number[], place: Int32Array): number[] {
  const inner: number[] = [];
  const outer: number[] = [];
  for (const frame of path) {
    (place[page.frames.layer[frame] ?? 0]! < WHY.length ? inner : outer).push(frame);
  }
  inner.sort((a, b) => place[page.frames.layer[a] ?? 0]! - place[page.frames.layer[b] ?? 0]!);
  return inner.concat(outer.reverse());
}

export interface Path { path: number[]; value: number; before: number }

/** Every stack that is chosen and not empty, as its frames are shown. */
export function* pathsOf(page: Page, choice: Choice): Generator<Path> {
  const place = Int32Array.from(page.layers, (layer) => {
    const at = WHY.indexOf(layer.name);
    return at < 0 ? WHY.length : at;
  });
  const values = page.stacks.values[choice.weight] ?? [];
  const old = page.before?.[choice.weight];
  const all = choice.layers.size === page.layers.length;
  const merged = choice.split ? undefined : page.frames.merged;
  for (let stack = 0; stack < page.stacks.node.length; stack++) {
    const value = values[stack] ?? 0, before = old?.[stack] ?? 0;
    if (value === 0 && before === 0) continue;
    let path = pathOf(page, stack);
    if (choice.only.some((frame) => !path.includes(frame))) continue;
    if (merged) path = path.map((frame) => merged[frame] ?? frame);
    if (!all) path = path.filter((frame) => choice.layers.has(page.frames.layer[frame] ?? 0));
    if (choice.mergeRecursion) path = path.filter((frame, i) => frame !== path[i - 1]);
    if (choice.order === "why") path = why(page, path, place);
    yield { path, value, before };
  }
}

export function build(page: Page, choice: Choice): Frame {
  const tree = grown(-1);
  for (const { path, value, before } of pathsOf(page, choice)) tree.add(path, value, before);
  return tree.root;
}

/** A tree that grows by paths below a frame; -1 is no frame. */
export function grown(frame: number): { root: Frame; add(path: number[], value: number, before: number): void } {
  const root: Frame = { frame, value: 0, own: 0, before: 0 };
  const below = new Map<Frame, Map<number, Frame>>();
  const add = (path: number[], value: number, before: number) => {
    let node = root;
    node.value += value;
    node.before += before;
    for (const step of path) {
      let known = below.get(node);
      if (!known) below.set(node, (known = new Map()));
      let next = known.get(step);
      if (!next) {
        next = { frame: step, value: 0, own: 0, before: 0 };
        known.set(step, next);
        (node.children ??= []).push(next);
      }
      next.value += value;
      next.before += before;
      node = next;
    }
    node.own += value;
  };
  return { root, add };
}
