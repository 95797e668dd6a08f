// Pictures to take along: a chart as PNG (to the clipboard) or SVG (as a file), a canvas as PNG.

import { h, say } from "./dom";

type Drawn = SVGSVGElement | HTMLCanvasElement | HTMLImageElement | null;

/** Two small buttons for a drawing, one for a canvas, which has no SVG. */
export function pictureButtons(drawn: () => Drawn, name: () => string, vector = true): HTMLElement {
  const button = (text: string, title: string, act: () => void) => {
    const element = h("button", { type: "button", class: "small", title }, text);
    element.onclick = act;
    return element;
  };
  return h("span", { class: "pictures" },
    button("Copy PNG", "Copy as a picture", () => { const it = drawn(); if (it) void copyPng(it, name()); }),
    vector ? button("Save SVG", "Save as a drawing", () => {
      const it = drawn();
      if (it instanceof SVGSVGElement) save(new Blob([standalone(it)], { type: "image/svg+xml" }), `${name()}.svg`);
      if (it instanceof HTMLImageElement) save(new Blob([decodeURIComponent(it.src.slice(it.src.indexOf(",") + 1))], { type: "image/svg+xml" }), `${name()}.svg`);
    }) : null);
}

async function copyPng(drawn: Exclude<Drawn, null>, name: string): Promise<void> {
  const made = drawn instanceof HTMLCanvasElement ? toPng(drawn) : rendered(drawn).then(toPng);
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": made })]);
    say("Picture copied");
  } catch {
    save(await made, `${name}.png`); // no right to the clipboard: a file instead
  }
}

function toPng(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((done, failed) => {
    canvas.toBlob((blob) => { if (blob) done(blob); else failed(new Error("the picture is too large")); }, "image/png");
  });
}

function save(blob: Blob, name: string): void {
  const link = h("a", { href: URL.createObjectURL(blob), download: name.replace(/[^\w.-]+/g, "-") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  say(`${link.download} saved`);
}

const LOOKS = ["fill", "stroke", "stroke-width", "opacity", "font-size", "font-family", "font-weight", "text-anchor"] as const;

/** A drawing that needs no style sheet: what the page's gives is written into it. */
export function standalone(svg: SVGSVGElement): string {
  const box = svg.getBoundingClientRect();
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [from, to] = [svg, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>("*")]) as [SVGElement[], SVGElement[]];
  from.forEach((element, i) => {
    if (!(element instanceof SVGElement)) return;
    const style = getComputedStyle(element);
    for (const look of LOOKS) to[i]!.setAttribute(look, style.getPropertyValue(look));
  });
  // Few programs draw HTML inside of SVG: labels become text.
  for (const foreign of copy.querySelectorAll("foreignObject")) {
    const wide = Number(foreign.getAttribute("width")), text = foreign.textContent ?? "";
    const room = Math.floor((wide - 8) / 6.4);
    const label = document.createElementNS(svg.namespaceURI!, "text");
    label.setAttribute("x", "4");
    label.setAttribute("y", "13");
    label.setAttribute("font-size", "11");
    label.setAttribute("font-family", "sans-serif");
    label.textContent = text.length <= room ? text : room > 3 ? `${text.slice(0, room - 1)}…` : "";
    foreign.replaceWith(label);
  }
  copy.setAttribute("xmlns", svg.namespaceURI!);
  copy.setAttribute("width", String(Math.round(box.width)));
  copy.setAttribute("height", String(Math.round(box.height)));
  copy.style.background = getComputedStyle(document.documentElement).getPropertyValue("--field");
  return new XMLSerializer().serializeToString(copy);
}

async function rendered(drawn: SVGSVGElement | HTMLImageElement): Promise<HTMLCanvasElement> {
  const box = drawn.getBoundingClientRect();
  const image = drawn instanceof HTMLImageElement ? drawn : new Image();
  if (drawn !== image) image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(drawn as SVGSVGElement))}`;
  await image.decode();
  const canvas = h("canvas", { width: Math.round(2 * box.width), height: Math.round(2 * box.height) });
  const c = canvas.getContext("2d")!;
  c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--field");
  c.fillRect(0, 0, canvas.width, canvas.height);
  c.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}
