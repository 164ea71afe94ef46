// SPDX-License-Identifier: Apache-2.0
//
// The age of an allocation at a moment. For allocations before the trace it is unknown.
import { kNone } from "../api/scene.ts";
import { formatEntries } from "./format.ts";

export function ageText(made: number, at: number): string {
  if (made === kNone) return "older than the trace";
  return `${formatEntries(Math.max(0, at - made))} old`;
}
