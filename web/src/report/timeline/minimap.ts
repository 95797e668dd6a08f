// The whole run in one strip: how busy the devices are, and which part is shown. Drag to move.

import type { Model } from "./model";
import type { Theme } from "./theme";

const SLICES = 600;

export class Minimap {
  readonly canvas = document.createElement("canvas");
  private readonly busy: Float64Array[];
  private readonly rows: number;

  constructor(model: Model, private readonly length: number, move: (middle: number) => void) {
    this.canvas.className = "minimap";
    this.canvas.setAttribute("aria-hidden", "true");
    const streams = model.lanes.filter((l) => model.block.tracks[l.track]!.kind === "stream");
    const lanes = streams.length ? streams : model.lanes.filter((l) => l.lane === 0);
    this.rows = new Set(lanes.map((l) => `${model.block.tracks[l.track]!.rank} ${model.block.tracks[l.track]!.device}`)).size;
    this.busy = model.block.classes.map(() => new Float64Array(SLICES));
    const width = Math.max(1, length) / SLICES;
    for (const lane of lanes) {
      for (let i = lane.from; i < lane.to; i++) {
        const values = this.busy[model.cls[i]!]!;
        const first = Math.min(SLICES - 1, Math.floor(model.start[i]! / width));
        const last = Math.min(SLICES - 1, Math.floor(model.end[i]! / width));
        for (let s = first; s <= last; s++) {
          values[s]! += Math.min(model.end[i]!, (s + 1) * width) - Math.max(model.start[i]!, s * width);
        }
      }
    }
    for (const values of this.busy) for (let s = 0; s < SLICES; s++) values[s]! /= width * Math.max(1, this.rows);
    const at = (event: PointerEvent) => {
      const box = this.canvas.getBoundingClientRect();
      move(((event.clientX - box.left) / box.width) * this.length);
    };
    this.canvas.onpointerdown = (event) => { this.canvas.setPointerCapture(event.pointerId); at(event); };
    this.canvas.onpointermove = (event) => { if (event.buttons) at(event); };
  }

  paint(t: Theme, from: number, to: number): void {
    const { canvas } = this;
    const scale = devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight;
    if (!w) return;
    if (canvas.width !== Math.round(w * scale)) canvas.width = Math.round(w * scale);
    if (canvas.height !== Math.round(h * scale)) canvas.height = Math.round(h * scale);
    const c = canvas.getContext("2d")!;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = t.ground;
    c.fillRect(0, 0, w, h);
    for (let s = 0; s < SLICES; s++) {
      let y = h;
      this.busy.forEach((values, cls) => {
        const tall = Math.min(y, values[s]! * h);
        if (tall <= 0) return;
        c.fillStyle = t.fill[cls]!;
        c.fillRect((s * w) / SLICES, y - tall, w / SLICES + 0.5, tall);
        y -= tall;
      });
    }
    const a = (from / this.length) * w, b = (to / this.length) * w;
    c.globalAlpha = 0.55;
    c.fillStyle = t.ground;
    c.fillRect(0, 0, a, h);
    c.fillRect(b, 0, w - b, h);
    c.globalAlpha = 1;
    c.strokeStyle = t.select;
    c.lineWidth = 1.5;
    c.strokeRect(Math.max(0.75, a), 0.75, Math.max(3, Math.min(w, b) - Math.max(0, a) - 1.5), h - 1.5);
  }
}
