// The timeline's columns: undoes sightline/report/html/timeline/pack.py, exactly.

import { bytesOf, inflate } from "../shared/pack";

export interface Entry { at: number; bytes: number; n: number; width: number; delta: boolean }

/** The packed part of the page, or its number of bytes as text if it is damaged. */
export function packedPart(element: HTMLElement): Uint8Array<ArrayBuffer> {
  const bytes = bytesOf(element.textContent ?? "");
  element.textContent = ""; // the text is a third larger than the bytes, and is not needed again
  return bytes;
}

export async function column(
  packed: Uint8Array<ArrayBuffer>, entry: Entry, into: Float64Array | Uint32Array | Uint8Array,
): Promise<void> {
  const part = packed.subarray(entry.at, entry.at + entry.bytes);
  const planes = new Uint8Array(await inflate(part).arrayBuffer());
  const { n, width } = entry;
  if (planes.length !== n * width) throw new Error("a column of the timeline is damaged");
  const planesAt = (plane: number) => planes.subarray(plane * n, (plane + 1) * n);
  into.set(planesAt(0));
  if (into instanceof Uint8Array && width === 1 && !entry.delta) return;
  // Sums of bytes times powers of 256 are exact up to 2^53, which is 104 days of nanoseconds.
  const wide = into instanceof Float64Array ? into : new Float64Array(into);
  let weight = 256;
  for (let plane = 1; plane < width; plane++, weight *= 256) {
    const bytes = planesAt(plane);
    for (let i = 0; i < n; i++) wide[i]! += bytes[i]! * weight;
  }
  if (entry.delta) {
    let sum = 0;
    for (let i = 0; i < n; i++) {
      const zigzag = wide[i]!;
      sum += zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
      wide[i] = sum;
    }
  }
  if (wide !== into) into.set(wide);
}
