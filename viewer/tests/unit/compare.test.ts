// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { DocumentScene, Frame } from "../../src/api/scene.ts";
import {
  deltaOf,
  unusedBytes,
  imbalance,
  comparedDocument,
  stackChanges,
} from "../../src/model/compare.ts";
import { hasFrame, shortPath, stackTitle } from "../../src/model/frames.ts";
import { bytesByCategory, changeOf, ofCategory, stackUse } from "../../src/model/stack_use.ts";
import { heldBytes } from "../fake_server.ts";

const frame = (name: string): Frame => [name, `/src/${name}.py`, 1];

test("computes the imbalance of ranks", () => {
  expect(imbalance([10, 30, 20])).toEqual({ worst: 1, mean: 20, share: 0.5 });
  expect(imbalance([5])).toEqual({ worst: 0, mean: 5, share: 0 });
});

test("matches stacks by frames, not by id", () => {
  const base = {
    stacks: { frames: [frame("a"), frame("b")], stacks: [[0], [0, 1]] },
    bytes: heldBytes([0, 1], [100, 7]),
  };
  const other = {
    stacks: { frames: [frame("b"), frame("a")], stacks: [[1, 0], [1]] },
    bytes: heldBytes([0, 1], [50, 100]),
  };
  const changes = stackChanges(base, other);
  expect(changes.map(deltaOf)).toEqual([43, 0]);
  expect(changes[0].stack).toEqual([1, 0]);
});

test("reports stacks of one document as fully changed", () => {
  const none = { stacks: { frames: [], stacks: [] }, bytes: heldBytes([], []) };
  const some = { stacks: { frames: [frame("a")], stacks: [[0]] }, bytes: heldBytes([0], [9]) };
  expect(stackChanges(some, none).map(deltaOf)).toEqual([-9]);
  expect(stackChanges(none, some).map(deltaOf)).toEqual([9]);
});

test("titles stacks by their innermost frame", () => {
  const stacks = {
    frames: [
      frame("train"),
      ["load", "C:\\jobs\\llm\\data\\load.py", 5],
      ["a label", "", 0],
    ] as Frame[],
    stacks: [[0, 1], [0], [], [0, 2]],
  };
  expect(stackTitle(stacks, 0)).toBe("load  llm/data/load.py:5");
  expect(stackTitle(stacks, 1)).toBe("train  /src/train.py:1");
  expect(stackTitle(stacks, 2)).toBe("no stack recorded");
  expect(stackTitle(stacks, 3)).toBe("a label");
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
  const uses = stackUse(heldBytes([1, 2], [10, 20]), heldBytes([2, 3], [5, 7]));
  expect(uses.map((use) => [use.stack, use.bytes, changeOf(use)])).toEqual([
    [1, 10, 10],
    [2, 20, 15],
    [3, 0, -7],
  ]);
});

test("selects and sums up the bytes of a category", () => {
  const all = heldBytes([4, 4, 6, 9], [10, 20, 50, 3], [0, 1, 1, 0]);
  const chosen = ofCategory(all, 1);
  expect([...chosen.stack]).toEqual([6, 4]); // largest first
  expect([...chosen.bytes]).toEqual([50, 20]);
  expect(bytesByCategory(all, 3)).toEqual([13, 70, 0]);
  expect(bytesByCategory(chosen, 3)).toEqual([0, 70, 0]);
});
