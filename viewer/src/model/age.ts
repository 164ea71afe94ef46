// SPDX-License-Identifier: Apache-2.0
//
// How old an allocation is at a moment; what was there before the trace is older than it can tell.
import { kNone } from "../ask/scene.ts";
import { formatEntries } from "./format.ts";

export function ageText(made: number, at: number): string {
  if (made === kNone) return "older than the trace";
  return `${formatEntries(Math.max(0, at - made))} old`;
}
