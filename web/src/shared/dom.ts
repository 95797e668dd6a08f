// Elements from text. Nothing here ever reads text as markup: names come from recordings.

export type Child = Node | string | null | undefined;
type Options = Record<string, string | number | boolean | EventListener | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, options: Options = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  apply(element, options);
  element.append(...children.filter((c): c is Node | string => c !== null && c !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K, options: Options = {}, ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  apply(element, options);
  element.append(...children.filter((c): c is Node | string => c !== null && c !== undefined));
  return element;
}

function apply(element: Element, options: Options): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** A name that may go on in the next line after a mark, and not within a word. */
export function breakable(text: string): Child[] {
  const parts = text.match(/[^_<>,:(/.]+[_<>,:(/.]*|[_<>,:(/.]+/g) ?? [text];
  return parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part]));
}

/** The same of the long names in a sentence; numbers and words stay whole. */
export function breakLong(text: string): Child[] {
  return keepUnits(text).split(/(\S{18,})/).flatMap((part, i) => (i % 2 ? breakable(part) : [part]));
}

const UNIT = /(\d) (?=(?:%|[nµm]?s|min|h|[kMGT]?B(?:\/s)?|k?J|m?W|[kMG]Hz|[GTP]?FLOP\/s)(?!\w))/g;

/** A text in which no line ends between a number and its unit. */
export function keepUnits(text: string): string { return text.replace(UNIT, "$1\u00a0"); }

/** Whether the page has a phone's width. */
export function isNarrow(): boolean { return matchMedia("(max-width: 46rem)").matches; }

/** Whether it is used with a finger, which points at nothing. */
export function isTouched(): boolean { return matchMedia("(hover: none)").matches; }

/** Act as a fold opens: at once when its summary is clicked, since "toggle" comes a task later. */
export function onOpening(fold: HTMLDetailsElement, act: () => void): void {
  let acted = false;
  fold.querySelector("summary")!.addEventListener("click", () => {
    if (!fold.open) { act(); acted = true; }
  });
  fold.addEventListener("toggle", () => {
    if (fold.open && !acted) act();
    acted = fold.open;
  });
}

/** Tell a screen reader, and who looks at the status line. */
export function say(text: string): void {
  const element = document.getElementById("say");
  if (element) element.textContent = text;
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A browser may refuse it for files from disk: the old way asks for no right.
    const area = h("textarea", { class: "hidden-visually", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`${what} copied`);
}

export function copyButton(text: () => string, label: string, what: string): HTMLButtonElement {
  const button = h("button", { type: "button", class: "small" }, label);
  button.onclick = () => {
    void copy(text(), what);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1200);
  };
  return button;
}
