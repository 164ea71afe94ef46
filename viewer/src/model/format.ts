// SPDX-License-Identifier: Apache-2.0
//
// Formats numbers in the same way as the command line tool.

const kUnits = ["B", "KiB", "MiB", "GiB", "TiB"];
const kCountFormat = new Intl.NumberFormat("en-US");

// Formats bytes like "12.39 GiB"; sizes below 1 KiB have no decimals.
export function formatBytes(bytes: number): string {
  const unit = unitOf(Math.abs(bytes));
  if (unit === 0) return `${Math.round(bytes)} B`;
  return `${(bytes / 1024 ** unit).toFixed(2)} ${kUnits[unit]}`;
}

// Returns a difference with its sign. Uses a minus sign, which is as wide as the plus.
export function formatChange(bytes: number): string {
  if (bytes === 0) return "±0 B";
  return (bytes < 0 ? "−" : "+") + formatBytes(Math.abs(bytes));
}

export function formatCount(count: number): string {
  return kCountFormat.format(count);
}

export function formatShare(part: number, whole: number): string {
  if (whole <= 0) return "–";
  const share = (100 * part) / whole;
  return `${share.toFixed(share < 9.95 ? 1 : 0)} %`;
}

// A value that would round to 1000 in a unit is written in the next unit.
export function formatDuration(us: number): string {
  const length = Math.abs(us);
  if (length < 999.5) return `${Math.round(us)} µs`;
  if (length < 999.5e3) return `${threeDigits(us / 1e3)} ms`;
  if (length < 120e6) return `${threeDigits(us / 1e6)} s`;
  if (length < 7200e6) return `${threeDigits(us / 60e6)} min`;
  return `${threeDigits(us / 3600e6)} h`;
}

function threeDigits(value: number): string {
  return Math.abs(value) < 999.5 ? value.toPrecision(3) : String(Math.round(value));
}

export function formatAddress(address: bigint): string {
  return `0x${address.toString(16)}`;
}

export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function formatEntries(count: number): string {
  return count === 1 ? "1 entry" : `${formatCount(count)} entries`;
}

export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Returns round tick values for an axis from `from` to `to` bytes, with labels in one unit.
export function byteTicks(
  from: number,
  to: number,
  ticksOf: (from: number, to: number) => number[],
): { bytes: number; label: string }[] {
  const unit = unitOf(to);
  const size = 1024 ** unit;
  const values = ticksOf(from / size, to / size);
  const decimals = Math.max(0, ...values.map((value) => decimalsOf(value)));
  return values.map((value) => ({
    bytes: value * size,
    label: value === 0 ? "0" : `${value.toFixed(decimals)} ${kUnits[unit]}`,
  }));
}

const kDurations: [us: number, name: string][] = [
  [3600e6, "h"],
  [60e6, "min"],
  [1e6, "s"],
  [1e3, "ms"],
  [1, "µs"],
];

// Returns round tick values for an axis from `from` to `to` microseconds, with labels in the
// largest unit of which the axis shows at least two.
export function durationTicks(
  from: number,
  to: number,
  ticksOf: (from: number, to: number) => number[],
): { us: number; label: string }[] {
  const [size, name] = kDurations.find(([us]) => to - from >= 2 * us) ?? [1, "µs"];
  const values = ticksOf(from / size, to / size);
  const decimals = Math.max(0, ...values.map((value) => decimalsOf(value)));
  return values.map((value) => ({
    us: value * size,
    label: value === 0 ? "0" : `${value.toFixed(decimals)} ${name}`,
  }));
}

function unitOf(bytes: number): number {
  if (bytes < 1024) return 0;
  return Math.min(kUnits.length - 1, Math.floor(Math.log2(bytes) / 10));
}

function decimalsOf(value: number): number {
  const text = String(Number(value.toPrecision(10)));
  const point = text.indexOf(".");
  return point < 0 ? 0 : text.length - point - 1;
}
