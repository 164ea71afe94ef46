// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { kNone } from "../../src/api/scene.ts";
import { clipMiddle } from "../../src/draw/canvas.ts";
import { ageText } from "../../src/model/age.ts";
import * as format from "../../src/model/format.ts";

test("formats bytes like the command line", () => {
  expect(format.formatBytes(0)).toBe("0 B");
  expect(format.formatBytes(1023)).toBe("1023 B");
  expect(format.formatBytes(1024)).toBe("1.00 KiB");
  expect(format.formatBytes(14168358912)).toBe("13.20 GiB");
  expect(format.formatBytes(2 ** 50)).toBe("1024.00 TiB");
});

test("formats differences with a sign, zero without", () => {
  expect(format.formatChange(2 ** 20)).toBe("+1.00 MiB");
  expect(format.formatChange(-512)).toBe("−512 B");
  expect(format.formatChange(0)).toBe("±0 B");
});

test("separates the thousands of counts", () => {
  expect(format.formatCount(3000000)).toBe("3,000,000");
  expect(format.plural(1, "stack")).toBe("1 stack");
  expect(format.plural(1200, "stack")).toBe("1,200 stacks");
});

test("formats percentages with at most one decimal", () => {
  expect(format.formatShare(1, 1000)).toBe("0.1 %");
  expect(format.formatShare(364, 1000)).toBe("36 %");
  expect(format.formatShare(1, 0)).toBe("–");
});

test("formats durations in the most readable unit", () => {
  expect(format.formatDuration(87)).toBe("87 µs");
  expect(format.formatDuration(1320)).toBe("1.32 ms");
  expect(format.formatDuration(12_345_678)).toBe("12.3 s");
  expect(format.formatDuration(3 * 60e6)).toBe("3.00 min");
  expect(format.formatDuration(999.7)).toBe("1.00 ms");
  expect(format.formatDuration(999_400)).toBe("999 ms");
  expect(format.formatDuration(999_600)).toBe("1.00 s");
  expect(format.formatDuration(4000 * 3600e6)).toBe("4000 h");
});

test("labels byte ticks with round numbers of one unit", () => {
  const ticks = format.byteTicks(0, 2.5 * 2 ** 30, () => [0, 0.5, 1, 1.5, 2, 2.5]);
  expect(ticks.map((tick) => tick.label)).toEqual([
    "0",
    "0.5 GiB",
    "1.0 GiB",
    "1.5 GiB",
    "2.0 GiB",
    "2.5 GiB",
  ]);
  expect(ticks[1].bytes).toBe(2 ** 29);
});

test("labels ticks of time in the largest unit of which there are two", () => {
  const labels = (from: number, to: number, values: number[]) =>
    format.durationTicks(from, to, () => values).map((tick) => tick.label);
  expect(labels(0, 5e6, [0, 2.5, 5])).toEqual(["0", "2.5 s", "5.0 s"]);
  expect(labels(10e6, 10.5e6, [10_000, 10_250])).toEqual(["10000 ms", "10250 ms"]);
  expect(labels(0, 300e6, [0, 2])).toEqual(["0", "2 min"]);
  expect(labels(0, 4, [0, 2])).toEqual(["0", "2 µs"]);
  expect(format.durationTicks(0, 5e6, () => [2.5])[0].us).toBe(2.5e6);
});

test("cuts the middle of long texts", () => {
  const fits = (text: string) => text.length <= 9;
  expect(clipMiddle("ProfilerStep#12", fits)).toBe("Prof…p#12");
  expect(clipMiddle("step 1", fits)).toBe("step 1");
  expect(clipMiddle("abc", () => false)).toBe("…");
});

test("counts age in entries unless the allocation precedes the trace", () => {
  expect(ageText(5, 5)).toBe("0 entries old");
  expect(ageText(5, 6)).toBe("1 entry old");
  expect(ageText(0, 1200)).toBe("1,200 entries old");
  expect(ageText(kNone, 6)).toBe("older than the trace");
});
