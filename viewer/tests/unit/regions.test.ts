// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { DocumentScene, Training } from "../../src/api/scene.ts";
import { lanesOf, rangesOf, regionAt, regionsIn } from "../../src/model/regions.ts";

const annotated = (...marks: [entry: number, text: string][]) => ({
  annotations: marks.map(([entry, text]) => ({ entry, text })),
});
const training: Training = {
  categories: [],
  iterations: {
    found_from: "annotated optimizer steps",
    problem: null,
    complete: 1,
    highest: { index: 1, phase: "forward" },
    all: [
      { first_entry: 0, end_entry: 10, complete: false, peak_requested_bytes: 1024 },
      { first_entry: 10, end_entry: 30, complete: true, peak_requested_bytes: 2048 },
    ],
  },
  phases: [
    { first_entry: 0, end_entry: 5, phase: "other" },
    { first_entry: 5, end_entry: 20, phase: "forward" },
    { first_entry: 20, end_entry: 30, phase: "backward" },
  ],
};

test("pairs nested ranges and keeps other annotations", () => {
  const { nested, single } = rangesOf(
    annotated(
      [1, "step START"],
      [2, "forward START"],
      [3, "epoch 7"],
      [8, "forward END"],
      [9, "step END"],
      [9, "step START"],
      [12, "step END"],
    ),
  );
  expect(nested.map((lane) => lane.map(({ name, from, to }) => [name, from, to]))).toEqual([
    [
      ["step", 1, 9],
      ["step", 9, 12],
    ],
    [["forward", 2, 8]],
  ]);
  expect(single).toEqual([{ entry: 3, text: "epoch 7" }]);
});

test("ranges without a beginning or an end stay single annotations", () => {
  const { nested, single } = rangesOf(
    annotated([1, "a END"], [2, "b START"], [4, "c START"], [6, "c END"]),
  );
  expect(nested.flat().map((region) => region.name)).toEqual(["c"]);
  expect(single.map((each) => each.text)).toEqual(["a END", "b START"]);
});

test("lists iterations and phases, with their peaks", () => {
  const document = annotated() as DocumentScene;
  const lanes = lanesOf(document, training);
  expect(lanes.map((lane) => lane.title)).toEqual(["iterations", "phases"]);
  expect(lanes[0].regions.map((region) => region.name)).toEqual([
    "iteration 0, not recorded completely: peak 1.00 KiB",
    "iteration 1: peak 2.00 KiB, the highest",
  ]);
  expect(lanes[1].regions.map((region) => region.name)).toEqual(["forward", "backward"]);
  expect(lanesOf(document, null)).toEqual([]);
});

test("finds the region of an entry and those of a span", () => {
  const [, phases] = lanesOf(annotated() as DocumentScene, training);
  expect(regionAt(phases, 4.9)).toBe(null);
  expect(regionAt(phases, 5)?.name).toBe("forward");
  expect(regionAt(phases, 29.9)?.name).toBe("backward");
  expect(regionAt(phases, 30)).toBe(null);
  expect(regionsIn(phases, 10, 15).map((region) => region.name)).toEqual(["forward"]);
  expect(regionsIn(phases, 0, 40).length).toBe(2);
});
