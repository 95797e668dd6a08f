// Columns of numbers: undoes sightline/core/page/pack.py, exactly.

import { bytesOf, inflate } from "../shared/pack";

/** `unit` divides all numbers; `signed` ones are zigzag, and of `delta` differences are stored. */
export interface Entry { at: number; bytes: number; n: number; width: number; unit?: number; signed?: boolean; delta?: boolean }

/** Few numbers stand in the data as they are. */
export type Numbers = number[] | Entry;

/** The packed part of the page. */
export class Packed {
  private readonly bytes: Uint8Array<ArrayBuffer>;

  constructor(element: HTMLElement) {
    this.bytes = bytesOf(element.textContent ?? "");
    element.textContent = ""; // not needed again
  }

  /** The numbers themselves; sums of bytes times powers of 256 are exact up to 2^53, 104 days of ns. */
  async numbers(entry: Numbers): Promise<Float64Array> {
    if (Array.isArray(entry)) return Float64Array.from(entry);
    const { at, n, width, unit = 1 } = entry;
    const planes = new Uint8Array(await inflate(this.bytes.subarray(at, at + entry.bytes)).arrayBuffer());
    if (planes.length !== n * width) throw new Error("a column of the timeline is damaged");
    const values = new Float64Array(planes.subarray(0, n));
    let weight = 256;
    for (let plane = 1; plane < width; plane++, weight *= 256) {
      const bytes = planes.subarray(plane * n, (plane + 1) * n);
      for (let i = 0; i < n; i++) values[i]! += bytes[i]! * weight;
    }
    if (entry.signed) {
      for (let i = 0; i < n; i++) {
        const half = Math.floor(values[i]! / 2);
        values[i] = values[i] === 2 * half ? half : -half - 1;
      }
    }
    if (unit !== 1) for (let i = 0; i < n; i++) values[i]! *= unit;
    if (entry.delta) for (let i = 1; i < n; i++) values[i]! += values[i - 1]!;
    return values;
  }
}
