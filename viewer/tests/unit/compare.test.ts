// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { DocumentScene, Frame, StackBytes } from "../../src/api/scene.ts";
import {
  deltaOf,
  unusedBytes,
  imbalance,
  comparedDocument,
  stackChanges,
} from "../../src/model/compare.ts";
import { hasFrame, shortPath, stackTitle } from "../../src/model/frames.ts";
import { changeOf, stackUse } from "../../src/model/stack_use.ts";

const frame = (name: string): Frame => [name, `/src/${name}.py`, 1];
const held = (stack: number[], bytes: number[]): StackBytes => ({
  at: 0,
  stack: Uint32Array.from(stack),
  bytes: Float64Array.from(bytes),
  count: Uint32Array.from(stack, () => 1),
});

test("computes the imbalance of ranks", () => {
  expect(imbalance([10, 30, 20])).toEqual({ worst: 1, mean: 20, share: 0.5 });
  expect(imbalance([5])).toEqual({ worst: 0, mean: 5, share: 0 });
});

test("matches stacks by frames, not by id", () => {
  const base = {
    stacks: { frames: [frame("a"), frame("b")], stacks: [[0], [0, 1]] },
    bytes: held([0, 1], [100, 7]),
  };
  const other = {
    stacks: { frames: [frame("b"), frame("a")], stacks: [[1, 0], [1]] },
    bytes: held([0, 1], [50, 100]),
  };
  const changes = stackChanges(base, other);
  expect(changes.map(deltaOf)).toEqual([43, 0]);
  expect(changes[0].stack).toEqual([1, 0]);
});

test("reports stacks of one document as fully changed", () => {
  const none = { stacks: { frames: [], stacks: [] }, bytes: held([], []) };
  const some = { stacks: { frames: [frame("a")], stacks: [[0]] }, bytes: held([0], [9]) };
  expect(stackChanges(some, none).map(deltaOf)).toEqual([-9]);
  expect(stackChanges(none, some).map(deltaOf)).toEqual([9]);
});

test("titles PyTorch stacks by the calling user code", () => {
  const stacks = {
    frames: [frame("train"), ["linear", "/site-packages/torch/nn/functional.py", 5] as Frame],
    stacks: [[0, 1], [0], []],
  };
  expect(stackTitle(stacks, 0)).toBe("linear ← train  /src/train.py:1");
  expect(stackTitle(stacks, 1)).toBe("train  /src/train.py:1");
  expect(stackTitle(stacks, 2)).toBe("no stack recorded");
  expect(shortPath("/a/b/c/d.py")).toBe("b/c/d.py");
  expect(shortPath("/a/site-packages/pack/d.py")).toBe("pack/d.py");
});

test("compares only with other existing documents", () => {
  expect(comparedDocument(0, 2, 3)).toBe(2);
  expect(comparedDocument(1, 1, 3)).toBe(0);
  expect(comparedDocument(0, 0, 3)).toBe(1);
  expect(comparedDocument(0, 7, 3)).toBe(1);
  expect(comparedDocument(2, null, 3)).toBe(0);
  expect(comparedDocument(0, null, 1)).toBe(null);
});

test("computes unused bytes at one moment", () => {
  const document = {
    peak: { entry: 5, requested: 90 },
    reserved_peak: { entry: 9, reserved: 100, requested: 70 },
  } as DocumentScene;
  expect(unusedBytes(document)).toBe(30);
});

test("searches name, file and line like the server", () => {
  const stacks = { frames: [["Step", "/a/train.py", 12] as Frame], stacks: [[0], []] };
  expect(hasFrame(stacks, 0, "step:/A/train.py:12")).toBe(true);
  expect(hasFrame(stacks, 0, "train.py:13")).toBe(false);
  expect(hasFrame(stacks, 1, "step")).toBe(false);
});

test("includes stacks of both moments", () => {
  const uses = stackUse(held([1, 2], [10, 20]), held([2, 3], [5, 7]));
  expect(uses.map((use) => [use.stack, use.bytes, changeOf(use)])).toEqual([
    [1, 10, 10],
    [2, 20, 15],
    [3, 0, -7],
  ]);
});
