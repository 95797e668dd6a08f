// Numbers for a person, as sightline/core/units.py writes them.

/** Decimals as Python writes them: a tie goes to the even digit. */
function fixed(value: number, decimals: number): string {
  const scaled = Math.abs(value) * 10 ** decimals;
  if (decimals === 0 && scaled % 1 === 0.5) {
    const even = 2 * Math.round(scaled / 2);
    return String(value < 0 ? -even : even);
  }
  return value.toFixed(decimals);
}

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size < 9.9995 ? 3 : size < 99.995 ? 2 : 1);
}

export function amount(unit: string, value: number): string {
  const size = Math.abs(value);
  if (unit === "ns") {
    if (size < 1000) return `${fixed(value, 0)} ns`;
    if (size < 999.5e3) return `${digits(value / 1e3)} µs`;
    if (size < 999.5e6) return `${digits(value / 1e6)} ms`;
    return `${digits(value / 1e9)} s`;
  }
  if (unit === "bytes") {
    const steps: [string, number][] = [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12], ["PB", 1e15]];
    const [name, scale] = steps.find(([, s]) => size < s * 999.5) ?? ["PB", 1e15];
    return scale === 1 ? `${fixed(value, 0)} B` : `${digits(value / scale)} ${name}`;
  }
  // Stacks count whole microjoules.
  if (unit === "µJ") return cell("J", value / 1e6);
  return `${value.toLocaleString("en-US")} ${singular(unit, value)}`.trim();
}

/** A share from 0 to 100; what is not zero never reads as zero. */
export function share(value: number): string {
  return value !== 0 && Math.abs(value) < 0.05 ? "<0.1 %" : `${value.toFixed(1)} %`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 2 });
}

/** A table's cell, by its column's unit. */
export function cell(unit: string, value: number): string {
  if (unit === "ns" || unit === "bytes") return amount(unit, value);
  // A difference: its sign tells longer from shorter.
  if (unit === "ns change") return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${amount("ns", Math.abs(value))}`;
  if (unit === "moment") return moment(value);
  if (unit === "%") return share(value);
  if (unit === "id") return String(value);
  if (/^(FLOP|FLOP\/s|bytes\/s|Hz|J)$/.test(unit) && Math.abs(value) >= 1e3) {
    const steps: [string, number][] = [["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12], ["P", 1e15]];
    const [prefix, scale] = steps.find(([, s]) => Math.abs(value) < s * 999.5) ?? ["P", 1e15];
    return `${digits(value / scale)} ${prefix}${unit.replace("bytes", "B")}`;
  }
  const text = Number.isInteger(value) ? count(value) : digitsOrShort(value);
  return unit ? `${text} ${singular(unit, value)}` : text;
}

/** '1 sample', '2 samples'. */
function singular(unit: string, value: number): string {
  return value === 1 && /^[a-z]{3,}s$/.test(unit) ? unit.slice(0, -1) : unit;
}

function digitsOrShort(value: number): string {
  const size = Math.abs(value);
  return size >= 1e6 || (size > 0 && size < 0.01) ? value.toPrecision(4) : count(value);
}

/** A moment since the first event, to the nanosecond: 12.345 678 901 s. */
export function moment(ns: number): string {
  const sign = ns < 0 ? "−" : "";
  const whole = Math.abs(ns);
  const group = (text: string) => text.replace(/(\d{3})(?=\d)/g, "$1\u2009");
  if (whole >= 1e9) {
    return `${sign}${Math.floor(whole / 1e9)}.${group(String(whole % 1e9).padStart(9, "0"))} s`;
  }
  if (whole >= 1e6) {
    return `${sign}${Math.floor(whole / 1e6)}.${group(String(whole % 1e6).padStart(6, "0"))} ms`;
  }
  return `${sign}${Math.floor(whole / 1e3)}.${String(whole % 1e3).padStart(3, "0")} µs`;
}

export function percent(part: number, whole: number): string {
  if (!whole) return "0.0 %";
  const share = (100 * part) / whole;
  return share > 0 && share < 0.05 ? "<0.1 %" : `${share.toFixed(1)} %`;
}

/** Round moments from 0 to an end, most of them at most: a ruler's ticks. */
export function roundTicks(end: number, most: number): number[] {
  if (!(end > 0)) return [0];
  const power = 10 ** Math.floor(Math.log10(end / most));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => end / n <= most)!;
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => i * step);
}

/** A round moment without the zeros of its fraction: 5 ms. */
export function tickLabel(ns: number): string { return amount("ns", ns).replace(/\.0+ /, " "); }
