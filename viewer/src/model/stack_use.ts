// SPDX-License-Identifier: Apache-2.0
//
// Live bytes per stack at one or two moments.
import type { StackBytes } from "../api/scene.ts";

export interface StackUse {
  stack: number;
  bytes: number;
  count: number;
  before: number; // bytes at the other moment; 0 if there is none
}

// Returns the stacks in the order of `now`, then stacks that are no longer live.
export function stackUse(now: StackBytes, before: StackBytes | null): StackUse[] {
  const uses = new Map<number, StackUse>();
  now.stack.forEach((stack, i) => {
    uses.set(stack, { stack, bytes: now.bytes[i], count: now.count[i], before: 0 });
  });
  before?.stack.forEach((stack, i) => {
    const use = uses.get(stack) ?? { stack, bytes: 0, count: 0, before: 0 };
    uses.set(stack, { ...use, before: before.bytes[i] });
  });
  return [...uses.values()];
}

export function changeOf(use: StackUse): number {
  return use.bytes - use.before;
}

// Returns the bytes of one category by stack, largest first.
export function ofCategory({ at, split }: StackBytes, category: number): StackBytes {
  const rows = [...split.category.keys()]
    .filter((row) => split.category[row] === category)
    .sort((a, b) => split.bytes[b] - split.bytes[a]);
  const chosen = {
    stack: Uint32Array.from(rows, (row) => split.stack[row]),
    bytes: Float64Array.from(rows, (row) => split.bytes[row]),
    count: Uint32Array.from(rows, (row) => split.count[row]),
  };
  return {
    at,
    ...chosen,
    split: { ...chosen, category: new Uint8Array(rows.length).fill(category) },
  };
}

// Returns the bytes by category number.
export function bytesByCategory({ split }: StackBytes, categories: number): number[] {
  const sums = new Array<number>(categories).fill(0);
  split.category.forEach((category, row) => {
    if (category < categories) sums[category] += split.bytes[row];
  });
  return sums;
}
