// The page's data: what sightline/flames/html.py writes, schema "sightline-flame/2".

import { unpackJson } from "../shared/pack";

export const SCHEMA = "sightline-flame/2";

export interface Layer {
  name: string;
  side: "root" | "cpu" | "gpu" | "leaf";
  kind: string;
  doc: string;
}

export interface Page {
  schema: string;
  title: string;
  layers: Layer[];
  palettes: Record<string, Record<string, [number[], number[]]>>;
  units: Record<string, string>;
  /** Frames as parallel arrays: place of the layer in `layers`, the full name, the short one, which is empty in the
   * file where it is the name. */
  frames: {
    layer: number[]; name: string[]; label: string[];
    /** For each frame of a stack the one that it is shown as while instances are merged; frames
     * beyond are there only for that. Absent where nothing merges. */
    merged?: number[];
  };
  /** The stacks' trie, a node's parent before it; node 0 is the root and has no frame. In the file `parent`, and
   * `node` of the stacks, are what each is more than the one before it. */
  nodes: { parent: number[]; frame: number[] };
  /** One entry per stack: its last node, its grade, and a value per weight. */
  stacks: { node: number[]; match: number[]; values: Record<string, number[]> };
  grades: string[];
  totals: Record<string, number>;
  notes: string[];
  /** Only in a difference: values of `before` per stack, and what they were multiplied by. */
  before?: Record<string, number[]>;
  /** Only in a difference: share of a frame that a change must exceed, from steps that repeat. */
  noise?: number;
}

/** The data as it is used, from what stands in the file. */
export function unpack(page: Page): Page {
  const sums = (steps: number[]) => { let sum = 0; return steps.map((step) => (sum += step)); };
  return {
    ...page, frames: { ...page.frames, label: page.frames.label.map((label, i) => label || page.frames.name[i]!) },
    nodes: { ...page.nodes, parent: sums(page.nodes.parent) }, stacks: { ...page.stacks, node: sums(page.stacks.node) },
  };
}

/** The page's data, checked. */
export async function load(element: HTMLElement): Promise<Page> {
  const page = await unpackJson<Page>(element.textContent ?? "");
  if (page.schema !== SCHEMA) {
    throw new Error(`this page shows ${SCHEMA}, its data is ${page.schema}`);
  }
  return unpack(page);
}
