// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Stacks } from "../../src/api/scene.ts";
import { reportedFrameText, stackNumberOf } from "../../src/model/frames.ts";
import { LineUses } from "../../src/model/line_use.ts";
import { heldBytes } from "../fake_server.ts";

const stacks: Stacks = {
  frames: [
    ["main", "train.py", 10],
    ["step", "train.py", 20],
    ["linear", "model.py", 20],
    ["descend", "train.py", 30],
  ],
  // The last stack is recursive.
  stacks: [
    [0, 1, 2],
    [0, 1],
    [0, 1, 2],
    [0, 3, 3],
  ],
};
const uses = new LineUses(stacks, heldBytes([0, 1, 2, 3], [400, 300, 200, 100]));

test("sums up bytes by the innermost line", () => {
  expect(uses.of("model.py", 20)).toEqual({ bytes: 600, withCalls: 600, largest: 0 });
  expect(uses.of("train.py", 20)).toEqual({ bytes: 300, withCalls: 900, largest: 1 });
  expect(uses.of("train.py", 10)).toEqual({ bytes: 0, withCalls: 1000, largest: null });
  expect(uses.of("train.py", 99).withCalls).toBe(0);
});

test("counts a recursive stack once", () => {
  expect(uses.of("train.py", 30)).toEqual({ bytes: 100, withCalls: 100, largest: 3 });
});

test("finds the stack that a report names", () => {
  const reported = [
    { name: "step", filename: "train.py", line: 20 },
    { name: "main", filename: "train.py", line: 10 },
  ];
  expect(stackNumberOf(stacks, reported)).toBe(1);
  expect(stackNumberOf(stacks, reported.slice(1))).toBe(null);
  expect(reportedFrameText(reported[0])).toBe("step  train.py:20");
});
