// Colours of the canvas, from the page's style, so that both themes are in one place.

import { MOST_FILES } from "./looks";

export interface Theme {
  fill: string[];
  ink: string;
  soft: string;
  ground: string;
  band: string;
  line: string;
  accent: string;
  select: string;
  found: string;
}

// Classes of events, then what looks.ts adds to them.
const KINDS = ["compute", "comm", "copy", "unknown", "op", "annotation", "step", "api", "python", "device-range", "other",
  "running", "waiting", "asleep",
  "module", ...Array.from({ length: MOST_FILES + 1 }, (_, file) => `file-${file}`)];

export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    fill: KINDS.map((kind) => get(`t-${kind}`)),
    ink: get("t-ink"), soft: get("soft"), ground: get("field"), band: get("band"), line: get("line"),
    accent: get("accent"), select: get("select"), found: get("found"),
  };
}
