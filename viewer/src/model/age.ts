// SPDX-License-Identifier: Apache-2.0
//
// Formats the age of an allocation at a moment. The age of allocations that predate the trace is
// unknown.
import { kNone } from "../api/scene.ts";
import { formatEntries } from "./format.ts";

export function ageText(made: number, at: number): string {
  if (made === kNone) return "older than the trace";
  return `${formatEntries(Math.max(0, at - made))} old`;
}
