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
