// The whole run in one strip: how busy the devices are, and which part is shown. Drag to move.

import type { Theme } from "./theme";

export class Minimap {
  readonly canvas = document.createElement("canvas");
  private drawn: { canvas: HTMLCanvasElement; theme: Theme } | undefined;
  constructor(private readonly busy: ArrayLike<number>[], private readonly length: number, move: (middle: number) => void) {
    this.canvas.className = "minimap";
    this.canvas.setAttribute("aria-hidden", "true");
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
    const c = canvas.getContext("2d", { alpha: false })!;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.drawImage(this.whole(t, w, h, scale), 0, 0);
    c.setTransform(scale, 0, 0, scale, 0, 0);
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
    const slices = this.busy[0]?.length ?? 0;
    for (let s = 0; s < slices; s++) {
      let y = h;
      this.busy.forEach((values, cls) => {
        const tall = Math.min(y, values[s]! * h);
        if (tall <= 0) return;
        c.fillStyle = t.fill[cls]!;
        c.fillRect((s * w) / slices, y - tall, w / slices + 0.5, tall);
        y -= tall;
      });
    }
    this.drawn = { canvas, theme: t };
    return canvas;
  }
}
