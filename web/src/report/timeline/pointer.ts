// Mouse, wheel and fingers on the canvas: zoom, pan, select a range, click.

import { TOP } from "./paint";

export interface Surface {
  readonly canvas: HTMLCanvasElement;
  readonly gutter: number;
  zoom(factor: number, x: number): void;
  pan(dx: number, dy: number): void;
  selectPixels(a: number, b: number, done: boolean): void;
  click(x: number, y: number): void;
  hover(x: number, y: number): void;
  leave(): void;
}

export function listen(surface: Surface): void {
  const { canvas } = surface;
  const down = new Map<number, { x: number; y: number }>();
  let start: { x: number; y: number; select: boolean; moved: boolean } | null = null;
  const place = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x } = place(event);
    const unit = event.deltaMode === 1 ? 16 : 1;
    const dy = event.deltaY * unit, dx = event.deltaX * unit;
    if (x < surface.gutter || event.altKey) surface.pan(0, -dy); // over the labels the wheel scrolls
    else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) surface.pan(-(dx || dy), 0);
    else surface.zoom(Math.exp(Math.max(-200, Math.min(200, dy)) * 0.002), x);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
    const at = place(event);
    down.set(event.pointerId, at);
    start = { ...at, select: (event.shiftKey || at.y < TOP) && at.x > surface.gutter, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = place(event);
    const last = down.get(event.pointerId);
    if (!last || !start) { surface.hover(at.x, at.y); return; }
    if (down.size === 2) {
      const other = [...down].find(([id]) => id !== event.pointerId)![1];
      const before = Math.max(20, Math.abs(last.x - other.x)), after = Math.max(20, Math.abs(at.x - other.x));
      surface.zoom(before / after, (at.x + other.x) / 2);
      start.moved = true;
    } else if (start.moved || Math.hypot(at.x - start.x, at.y - start.y) > 4) {
      start.moved = true;
      if (start.select) surface.selectPixels(start.x, at.x, false);
      else surface.pan(at.x - last.x, at.y - last.y);
    }
    down.set(event.pointerId, at);
  });
  const up = (event: PointerEvent) => {
    const at = place(event);
    if (start && down.size === 1) {
      if (!start.moved) surface.click(at.x, at.y);
      else if (start.select) surface.selectPixels(start.x, at.x, true);
    }
    down.delete(event.pointerId);
    if (!down.size) start = null;
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", (event) => { down.delete(event.pointerId); start = null; });
  canvas.addEventListener("pointerleave", () => surface.leave());
}
