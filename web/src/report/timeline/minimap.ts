// The whole run in one strip: how busy the devices are, and which part is shown. Drag to move.

import type { Theme } from "./theme";

export class Minimap {
  readonly canvas = document.createElement("canvas");
  private drawn: { canvas: HTMLCanvasElement; theme: Theme } | undefined;
  /** Left of it stand the labels of the rows, so that a moment is at the same place as below. */
  private gutter = 0;
  constructor(private readonly busy: ArrayLike<number>[], private readonly length: number, move: (middle: number) => void) {
    this.canvas.className = "minimap";
    this.canvas.setAttribute("aria-hidden", "true");
    const at = (event: PointerEvent) => {
      const box = this.canvas.getBoundingClientRect();
      move(((event.clientX - box.left - this.gutter) / (box.width - this.gutter)) * this.length);
    };
    this.canvas.onpointerdown = (event) => { this.canvas.setPointerCapture(event.pointerId); at(event); };
    this.canvas.onpointermove = (event) => { if (event.buttons) at(event); };
  }

  paint(t: Theme, from: number, to: number, gutter: number): void {
    const { canvas } = this;
    if (gutter !== this.gutter) this.drawn = undefined;
    this.gutter = gutter;
    const scale = devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight;
    if (!w) return;
    if (canvas.width !== Math.round(w * scale)) canvas.width = Math.round(w * scale);
    if (canvas.height !== Math.round(h * scale)) canvas.height = Math.round(h * scale);
    const c = canvas.getContext("2d", { alpha: false })!;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.drawImage(this.whole(t, w, h, scale), 0, 0);
    c.setTransform(scale, 0, 0, scale, 0, 0);
    const wide = w - gutter;
    const a = Math.max(gutter, gutter + (from / this.length) * wide), b = Math.min(w, gutter + (to / this.length) * wide);
    c.globalAlpha = 0.55;
    c.fillStyle = t.ground;
    c.fillRect(gutter, 0, a - gutter, h);
    c.fillRect(b, 0, w - b, h);
    c.globalAlpha = 1;
    c.strokeStyle = t.select;
    c.lineWidth = 1.5;
    c.strokeRect(a + 0.75, 0.75, Math.max(3, b - a - 1.5), h - 1.5);
  }

  /** The strip without what moves: drawn once a size and theme, not 600 rectangles a frame. */
  private whole(t: Theme, w: number, h: number, scale: number): HTMLCanvasElement {
    const kept = this.drawn;
    if (kept && kept.theme === t && kept.canvas.width === this.canvas.width && kept.canvas.height === this.canvas.height) return kept.canvas;
    const canvas = document.createElement("canvas");
    canvas.width = this.canvas.width;
    canvas.height = this.canvas.height;
    const c = canvas.getContext("2d", { alpha: false })!;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = t.ground;
    c.fillRect(0, 0, w, h);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillStyle = t.soft;
    c.fillText("whole run", 8, h / 2 + 1);
    const slices = this.busy[0]?.length ?? 0, wide = w - this.gutter;
    for (let s = 0; s < slices; s++) {
      let y = h;
      this.busy.forEach((values, cls) => {
        const tall = Math.min(y, values[s]! * h);
        if (tall <= 0) return;
        c.fillStyle = t.fill[cls]!;
        c.fillRect(this.gutter + (s * wide) / slices, y - tall, wide / slices + 0.5, tall);
        y -= tall;
      });
    }
    this.drawn = { canvas, theme: t };
    return canvas;
  }
}
