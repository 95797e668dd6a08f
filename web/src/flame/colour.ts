// A frame's colour, by its layer; the same as sightline/flames/palette.py.

import { isDark } from "../shared/theme";
import type { Page } from "./data";

let table: Uint32Array | undefined;

function crc32(text: string): number {
  if (!table) {
    table = new Uint32Array(256);
    for (let n = 0; n < 256; n++) {
      let c = n;
      for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
      table[n] = c >>> 0;
    }
  }
  let crc = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) crc = table[(crc ^ byte) & 255]! ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

export function colour(page: Page, palette: string, frame: number): string {
  const known = page.palettes[palette] ?? page.palettes["gpu"]!;
  if (frame < 0) return mix(known["run"]!, 0);
  const name = page.frames.name[frame] ?? "";
  const kind = page.layers[page.frames.layer[frame] ?? 0]?.kind ?? "run";
  const range = known[kind === "native" && name.includes("::") ? "native_cpp" : kind];
  return mix(range ?? known["run"]!, (crc32(name) % 1000) / 999);
}

function mix([low, high]: [number[], number[]], share: number): string {
  return paper([0, 1, 2].map((i) => low[i]! + (high[i]! - low[i]!) * share));
}

/** A colour for the page's paper: on dark paper frames are darker, and their text is light. */
function paper(hue: number[]): string {
  const dim = isDark() ? 0.52 : 1;
  return `rgb(${hue.map((part) => Math.round(part * dim)).join(",")})`;
}

/** Blue for less, red for more, grey within the noise; the label carries a sign as well. */
export function change(before: number, after: number, noise: number): string {
  const larger = Math.max(before, after);
  if (!larger || Math.abs(after - before) <= noise * larger) return paper([205, 205, 205]);
  const share = Math.min(1, Math.abs(after - before) / larger);
  const pale = Math.round(225 - 120 * share);
  return paper(after > before ? [235, pale, pale - 15] : [pale - 15, pale + 10, 240]);
}
