// SPDX-License-Identifier: Apache-2.0
//
// The horizontal axis of the timeline: it places entries by their number or by their time. Spans
// are always given in entries, so that they mean the same on both axes.
import type { Clock } from "../api/scene.ts";
import type { Span } from "./tiles.ts";

export const kAxisKinds = ["entry", "time"] as const;
export type AxisKind = (typeof kAxisKinds)[number];

// Maps entries, which may be fractional, to positions. The mapping is continuous and increases.
export interface Axis {
  readonly kind: AxisKind;
  readonly end: number; // position of the end of the trace; it begins at 0
  readonly shortest: number; // length of the range that is shown at maximum zoom
  position(entry: number): number;
  entry(position: number): number;
  // The position at which an entry is marked: the middle of its column, or its time.
  mark(entry: number): number;
}

const kFewestEntries = 24; // shown at maximum zoom
const kShortestUs = 5;

export function entryAxis(entries: number): Axis {
  const end = Math.max(1, entries);
  return {
    kind: "entry",
    end,
    shortest: Math.min(kFewestEntries, end),
    position: (entry) => entry,
    entry: (position) => position,
    mark: (entry) => entry + 0.5,
  };
}

// Returns an axis of microseconds since the first entry; null if the times are unknown. Between the
// points of the clock, entries are spaced evenly.
export function timeAxis(entries: number, clock: Clock | null): Axis | null {
  if (!clock || clock.entry.length < 2) return null;
  const points = pointsOf(entries, clock);
  const end = points.position[points.position.length - 1];
  return {
    kind: "time",
    end,
    shortest: Math.min(kShortestUs, end),
    position: (entry) => interpolate(points.entry, points.position, entry),
    entry: (position) => interpolate(points.position, points.entry, position),
    mark: (entry) => interpolate(points.entry, points.position, entry),
  };
}

// Returns the points of the clock with strictly increasing positions, so that the mapping can be
// inverted: points with equal times are set apart by less than is visible. The last entry gets a
// width, too.
function pointsOf(entries: number, clock: Clock): { entry: number[]; position: number[] } {
  const [first] = clock.time_us;
  const count = clock.entry.length;
  const duration = Math.max(1, clock.time_us[count - 1] - first);
  const least = duration / 1e9;
  const entry = [0];
  const position = [0];
  const add = (e: number, p: number) => {
    const last = position.length - 1;
    if (e <= entry[last]) return;
    entry.push(e);
    position.push(Math.max(p, position[last] + least * (e - entry[last])));
  };
  for (let i = 0; i < count; ++i) add(clock.entry[i], clock.time_us[i] - first);
  add(entries, position[position.length - 1] + duration / 1000);
  return { entry, position };
}

// Maps a value by the piecewise linear function through the points (from, to). Both lists increase
// strictly. Values outside of `from` continue the first or the last piece.
function interpolate(from: number[], to: number[], at: number): number {
  let [low, high] = [0, from.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle] <= at) low = middle;
    else high = middle;
  }
  const share = (at - from[low]) / (from[high] - from[low]);
  return to[low] + share * (to[high] - to[low]);
}

export function wholeSpan(axis: Axis): Span {
  return { from: 0, to: axis.entry(axis.end) };
}

// Clamps a span to the trace. If the span exceeds only one end, shifts it without changing its
// length on the axis.
export function clampSpan(axis: Axis, span: Span): Span {
  const from = axis.position(span.from);
  return within(axis, from, Math.min(axis.end, axis.position(span.to) - from));
}

// Zooms such that the position `around` stays where it is on the screen, and clamps the result.
export function zoomSpan(axis: Axis, span: Span, zoom: { around: number; factor: number }): Span {
  const [from, to] = [axis.position(span.from), axis.position(span.to)];
  const length = Math.min(axis.end, Math.max(axis.shortest, (to - from) * zoom.factor));
  const share = (zoom.around - from) / (to - from);
  return within(axis, zoom.around - share * length, length);
}

// Moves the span by a share of its length.
export function panSpan(axis: Axis, span: Span, share: number): Span {
  const [from, to] = [axis.position(span.from), axis.position(span.to)];
  return within(axis, from + share * (to - from), to - from);
}

// Returns the span between two positions, in either order, but not less than the shortest.
export function spanBetween(axis: Axis, a: number, b: number): Span {
  const length = Math.max(axis.shortest, Math.abs(b - a));
  return within(axis, (a + b - length) / 2, length);
}

function within(axis: Axis, from: number, length: number): Span {
  const begin = Math.min(Math.max(0, from), Math.max(0, axis.end - length));
  return { from: axis.entry(begin), to: axis.entry(begin + length) };
}
