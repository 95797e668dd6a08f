// Numbers for a person, as sightline/units.py writes them.

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size < 9.9995 ? 3 : size < 99.995 ? 2 : 1);
}

export function amount(unit: string, value: number): string {
  const size = Math.abs(value);
  if (unit === "ns") {
    if (size < 1000) return `${value.toFixed(0)} ns`;
    if (size < 999.5e3) return `${digits(value / 1e3)} µs`;
    if (size < 999.5e6) return `${digits(value / 1e6)} ms`;
    return `${digits(value / 1e9)} s`;
  }
  if (unit === "bytes") {
    const steps: [string, number][] = [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]];
    const [name, scale] = steps.find(([, s]) => size < s * 999.5) ?? ["TB", 1e12];
    return scale === 1 ? `${value.toFixed(0)} B` : `${digits(value / scale)} ${name}`;
  }
  return `${value.toLocaleString("en-US")} ${unit}`.trim();
}

export function percent(part: number, whole: number): string {
  if (!whole) return "0.0 %";
  const share = (100 * part) / whole;
  return share > 0 && share < 0.05 ? "<0.1 %" : `${share.toFixed(1)} %`;
}
