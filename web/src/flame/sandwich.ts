// One function: who calls it, and what it calls, over all stacks that it is in.

import type { Page } from "./data";
import { type Choice, type Frame, grown, pathsOf } from "./tree";

/** A frame's own value, and that of all stacks which it is in, each counted once. */
export interface FunctionSum { frame: number; own: number; total: number }

/** All frames, the largest total first. */
export function sumFunctions(page: Page, choice: Choice): FunctionSum[] {
  const sums = new Map<number, FunctionSum>();
  for (const { path, value } of pathsOf(page, choice)) {
    if (!value) continue;
    for (const frame of new Set(path)) {
      let sum = sums.get(frame);
      if (!sum) sums.set(frame, (sum = { frame, own: 0, total: 0 }));
      sum.total += value;
    }
    const last = path[path.length - 1];
    if (last !== undefined) sums.get(last)!.own += value;
  }
  return [...sums.values()].sort((a, b) => b.total - a.total || b.own - a.own || a.frame - b.frame);
}

/** Two trees below a frame, of equal totals: its callers, innermost first, and its callees.
 *
 * Of a recursive function it is the outermost call that counts, so nothing counts twice.
 */
export function sandwichOf(page: Page, choice: Choice, frame: number): { callers: Frame; callees: Frame } {
  const callers = grown(frame), callees = grown(frame);
  for (const { path, value, before } of pathsOf(page, choice)) {
    const at = path.indexOf(frame);
    if (at < 0) continue;
    callers.add(path.slice(0, at).reverse(), value, before);
    callees.add(path.slice(at + 1), value, before);
  }
  return { callers: callers.root, callees: callees.root };
}
