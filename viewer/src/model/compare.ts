// SPDX-License-Identifier: Apache-2.0
//
// Several documents side by side: which rank is worst, how uneven they are, and what two of them
// hold that the other does not.
import type { DocumentScene, StackBytes, Stacks } from "../ask/scene.ts";
import { stackKey } from "./frames.ts";

export interface Imbalance {
  worst: number; // the document with the most
  mean: number;
  share: number; // by how much the worst lies above the mean
}

export function imbalance(values: number[]): Imbalance {
  const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  const worst = values.indexOf(Math.max(...values));
  return { worst, mean, share: mean > 0 ? values[worst] / mean - 1 : 0 };
}

// Of what was reserved when that reached its peak, what nobody had asked for at that moment.
export function gapOf(document: DocumentScene): number {
  return document.reserved_peak.reserved - document.reserved_peak.requested;
}

// What the base is compared with: the wanted one, or the first other one. Null: there is none.
export function partnerOf(base: number, wanted: number | null, count: number): number | null {
  if (wanted !== null && wanted !== base && wanted < count) return wanted;
  return count > 1 ? (base === 0 ? 1 : 0) : null;
}

export function titleOf(document: DocumentScene): string {
  return `${document.name}, device ${document.device}`;
}

export interface StackChange {
  key: string;
  stack: [base: number | null, other: number | null];
  bytes: [base: number, other: number];
  count: [base: number, other: number];
}

export interface HeldBy {
  stacks: Stacks;
  bytes: StackBytes;
}

// By stack, the greatest change first. Stacks are the same where their frames are.
export function stackChanges(base: HeldBy, other: HeldBy): StackChange[] {
  const byKey = new Map<string, StackChange>();
  [base, other].forEach((held, side) => {
    held.bytes.stack.forEach((stack, i) => {
      const key = stackKey(held.stacks, stack);
      let change = byKey.get(key);
      if (!change) {
        change = { key, stack: [null, null], bytes: [0, 0], count: [0, 0] };
        byKey.set(key, change);
      }
      change.stack[side] = stack;
      change.bytes[side] += held.bytes.bytes[i];
      change.count[side] += held.bytes.count[i];
    });
  });
  return [...byKey.values()].sort((a, b) => Math.abs(deltaOf(b)) - Math.abs(deltaOf(a)));
}

export function deltaOf(change: StackChange): number {
  return change.bytes[1] - change.bytes[0];
}
