// SPDX-License-Identifier: Apache-2.0
//
// Compares documents: the imbalance between all documents, and the differences between two
// documents by stack.
import type { DocumentScene, StackBytes, Stacks } from "../api/scene.ts";
import { stackKey } from "./frames.ts";

export interface Imbalance {
  worst: number; // index of the maximum
  mean: number;
  share: number; // excess of the maximum over the mean
}

export function imbalance(values: number[]): Imbalance {
  const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  const worst = values.indexOf(Math.max(...values));
  return { worst, mean, share: mean > 0 ? values[worst] / mean - 1 : 0 };
}

// Returns the reserved minus the requested bytes at the peak of reserved bytes.
export function unusedBytes(document: DocumentScene): number {
  return document.reserved_peak.reserved - document.reserved_peak.requested;
}

// Returns the document to compare with `base`: the wanted document or, if it is not available, the
// first other document; null if there is no other document.
export function comparedDocument(
  base: number,
  wanted: number | null,
  count: number,
): number | null {
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

export interface StacksAtPeak {
  stacks: Stacks;
  bytes: StackBytes;
}

// Returns the differences by stack, largest first. Stacks are equal if their frames are equal.
export function stackChanges(base: StacksAtPeak, other: StacksAtPeak): StackChange[] {
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
