// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Stacks } from "../../src/api/scene.ts";
import {
  flameBoxes,
  flameTree,
  isMatch,
  matchingBytes,
  pathOfNames,
  pathOfStack,
} from "../../src/model/flame_tree.ts";
import { heldBytes } from "../fake_server.ts";

const stacks: Stacks = {
  frames: [
    ["main", "main.py", 1],
    ["load", "load.py", 2],
    ["step", "step.py", 3],
  ],
  stacks: [[0, 1], [0, 2], [0], []],
};
const held = (bytes: Record<number, number>) =>
  heldBytes(Object.keys(bytes).map(Number), Object.values(bytes));

test("a frame has the bytes of all stacks through it", () => {
  const root = flameTree(stacks, held({ 0: 10, 1: 20, 2: 5, 3: 1 }), null);
  expect(root.now).toBe(36);
  const main = root.children.find((node) => node.name.startsWith("main"))!;
  expect(main.now).toBe(35);
  expect(main.stacks).toEqual([2]);
  expect(main.children.map((node) => node.now)).toEqual([10, 20]);
  expect(root.children[1].name).toBe("no stack recorded");
});

test("comparison frames have both values and the width of the larger stacks", () => {
  const root = flameTree(stacks, held({ 0: 10 }), held({ 0: 4, 1: 20 }));
  expect([root.now, root.before, root.width]).toEqual([10, 24, 30]);
});

test("lays out callees within their callers, proportional to bytes", () => {
  const boxes = flameBoxes(flameTree(stacks, held({ 0: 10, 1: 20, 2: 10 }), null), 0);
  const width = (name: string) => {
    const box = boxes.find((each) => each.data.name.startsWith(name))!;
    return box.x1 - box.x0;
  };
  expect(width("main")).toBeCloseTo(1);
  expect(width("step")).toBeCloseTo(0.5);
  expect(width("load")).toBeCloseTo(0.25);
  const narrow = flameBoxes(flameTree(stacks, held({ 0: 1, 1: 999 }), null), 0.01);
  expect(narrow.some((box) => box.data.name.startsWith("load"))).toBe(false);
});

test("finds the path from the root to the end of a stack", () => {
  const root = flameTree(stacks, held({ 0: 10, 1: 20 }), null);
  expect(pathOfStack(root, 1).map((node) => node.name.split(" ")[0])).toEqual([
    "all",
    "main",
    "step",
  ]);
  expect(pathOfStack(root, 77)).toEqual([]);
});

test("finds each of several stacks with equal frames", () => {
  const alike: Stacks = {
    frames: [
      ["main", "/a/site-packages/pack/main.py", 1],
      ["main", "/b/site-packages/pack/main.py", 1],
    ],
    stacks: [[0], [1]],
  };
  const root = flameTree(alike, held({ 0: 10, 1: 5 }), null);
  expect(root.children.map((node) => [node.now, node.stacks])).toEqual([[15, [0, 1]]]);
  expect(pathOfStack(root, 0).length).toBe(2);
  expect(pathOfStack(root, 1).length).toBe(2);
});

test("shows a chain of single callees as one node", () => {
  const chain: Stacks = {
    frames: [...stacks.frames, ["inner", "inner.py", 4]],
    stacks: [
      [0, 1],
      [0, 2, 3],
      [0, 2],
    ],
  };
  const callees = (held: ReturnType<typeof heldBytes>) =>
    flameTree(chain, held, null).children[0].children.map((node) => node.names.length);
  expect(callees(held({ 0: 1, 1: 2 }))).toEqual([1, 2]);
  expect(callees(held({ 0: 1, 1: 2, 2: 3 }))).toEqual([1, 1]); // a stack ends within the chain
  const [only] = flameTree(chain, held({ 1: 2 }), null).children;
  expect(only.name).toBe("inner  inner.py:4 ← step  step.py:3 ← main  main.py:1");
  expect([only.now, only.stacks, only.children]).toEqual([2, [1], []]);
});

test("follows names into chains", () => {
  const root = flameTree(stacks, held({ 0: 10 }), null);
  const names = ["main  main.py:1", "load  load.py:2"];
  expect(pathOfNames(root, names)).toEqual([root, root.children[0]]);
  expect(pathOfNames(root, names.slice(0, 1))).toEqual([root, root.children[0]]);
  expect(pathOfNames(root, ["main  main.py:1", "gone"])).toEqual([root]);
});

test("follows names as far as matching frames exist", () => {
  const root = flameTree(stacks, held({ 0: 10, 1: 20 }), null);
  const names = pathOfStack(root, 0)
    .slice(1)
    .flatMap((node) => node.names);
  expect(pathOfNames(root, names)).toEqual(pathOfStack(root, 0));
  expect(pathOfNames(root, [names[0], "gone", names[1]]).map((node) => node.now)).toEqual([30, 30]);
  expect(pathOfNames(root, ["of another document"])).toEqual([root]);
});

test("search counts each stack once, also if several of its frames match", () => {
  const root = flameTree(stacks, held({ 0: 10, 1: 20, 2: 5, 3: 1 }), null);
  expect(matchingBytes(root, "LOAD.py")).toBe(10);
  expect(matchingBytes(root, "main")).toBe(35);
  expect(matchingBytes(root, ".py")).toBe(35);
  expect(matchingBytes(root, "nowhere")).toBe(0);
  const main = root.children.find((node) => node.name.startsWith("main"))!;
  expect(isMatch(main, "main.py:1")).toBe(true);
  expect(isMatch(main, "step")).toBe(false);
});
