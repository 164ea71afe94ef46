// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import * as axes from "../../src/model/axis.ts";

const kEntries = 100_000;
// A burst in the first tenth of the entries, a pause of ten seconds, and a slower part.
const clock = {
  entry: Uint32Array.of(0, 10_000, 10_001, 99_999),
  time_us: Float64Array.of(5e6, 6e6, 16e6, 106e6),
};
const entry = axes.entryAxis(kEntries);
const time = axes.timeAxis(kEntries, clock)!;

describe.each([
  ["entry", entry],
  ["time", time],
])("on an axis of %s", (_, axis) => {
  test("positions map back to entries", () => {
    for (const at of [0, 0.5, 9_999.25, 10_000.5, 54_321, 99_999.5, 100_000]) {
      expect(axis.entry(axis.position(at))).toBeCloseTo(at, 5);
    }
    expect(axis.position(0)).toBe(0);
    expect(axis.position(kEntries)).toBeCloseTo(axis.end);
  });

  test("zooming keeps the position under the pointer", () => {
    const span = { from: 20_000, to: 40_000 };
    const around = axis.position(25_000);
    const next = axes.zoomSpan(axis, span, { around, factor: 0.5 });
    const length = (of: typeof span) => axis.position(of.to) - axis.position(of.from);
    const share = (of: typeof span) => (around - axis.position(of.from)) / length(of);
    expect(length(next)).toBeCloseTo(length(span) / 2, 3);
    expect(share(next)).toBeCloseTo(share(span));
  });

  test("zooming and panning stop at the ends and at the maximum zoom", () => {
    const whole = axes.wholeSpan(axis);
    const zoomed = axes.zoomSpan(axis, whole, { around: 5, factor: 9 });
    expect(zoomed.from).toBe(0);
    expect(zoomed.to).toBeCloseTo(kEntries);
    expect(axes.panSpan(axis, { from: 10, to: 110 }, -50).from).toBe(0);
    expect(axes.panSpan(axis, { from: 10, to: 110 }, 1e9).to).toBeCloseTo(kEntries);
    const near = axes.zoomSpan(axis, { from: 0, to: 30 }, { around: 5, factor: 1e-9 });
    expect(axis.position(near.to) - axis.position(near.from)).toBeCloseTo(axis.shortest, 3);
  });

  test("a box of any direction becomes a span", () => {
    const [a, b] = [axis.position(500), axis.position(900)];
    for (const span of [axes.spanBetween(axis, a, b), axes.spanBetween(axis, b, a)]) {
      expect(span.from).toBeCloseTo(500);
      expect(span.to).toBeCloseTo(900);
    }
  });
});

test("an axis of entries marks the middle of their columns", () => {
  expect(entry.mark(7)).toBe(7.5);
  const near = axes.zoomSpan(entry, { from: 0, to: 30 }, { around: 15, factor: 0.001 });
  expect(near.to - near.from).toBeGreaterThanOrEqual(20);
});

test("an axis of time shows pauses and marks entries at their time", () => {
  expect(time.position(10_000)).toBe(1e6);
  expect(time.mark(10_001)).toBe(11e6);
  expect(time.entry(6e6)).toBeCloseTo(10_000.5);
});

test("equal times are set apart, so that each entry has a position", () => {
  const axis = axes.timeAxis(4, {
    entry: Uint32Array.of(0, 1, 2, 3),
    time_us: Float64Array.of(10, 10, 10, 20),
  })!;
  expect(axis.position(1)).toBeGreaterThan(0);
  expect(axis.position(2)).toBeGreaterThan(axis.position(1));
  expect(axis.position(3)).toBeCloseTo(10);
});

test("there is no axis of time without times", () => {
  const none = { entry: new Uint32Array(), time_us: new Float64Array() };
  expect(axes.timeAxis(10, none)).toBe(null);
  expect(axes.timeAxis(10, null)).toBe(null);
});

test("shifts a span beyond the end into the trace", () => {
  expect(axes.clampSpan(entry, { from: 10, to: 50 })).toEqual({ from: 10, to: 50 });
  expect(axes.clampSpan(entry, { from: 500_000, to: 500_100 })).toEqual({
    from: 99_900,
    to: 100_000,
  });
  expect(axes.clampSpan(entry, { from: 5, to: 1e9 })).toEqual(axes.wholeSpan(entry));
});
