// SPDX-License-Identifier: Apache-2.0
//
// What a watched process has told over time: sums over its allocators, and rates between two looks.
import type { LiveMemory, LiveNumbers } from "../ask/scene.ts";

export const kMostSamples = 3600; // an hour, at one look a second

export interface LiveSample {
  numbers: LiveNumbers;
  at: number; // seconds on the process's own clock
}

// The samples with one more. A process that begins anew begins a new curve.
export function withSample(samples: LiveSample[], numbers: LiveNumbers): LiveSample[] {
  const at = numbers.shown_seconds;
  const last = samples.at(-1);
  const before = last && at <= last.at ? [] : samples;
  return [...before, { numbers, at }].slice(-kMostSamples);
}

type ByteKey = "reserved_bytes" | "active_bytes" | "allocated_bytes" | "requested_bytes";
export function totalBytes(of: LiveMemory[], key: ByteKey): number {
  return of.reduce((sum, each) => sum + each[key], 0);
}

// Of the device's memory or of the host's.
export interface Counter<Kind extends LiveMemory> {
  in: (numbers: LiveNumbers) => Kind[];
  of: (allocator: Kind) => number;
}

// Of one allocator, or of all that both samples know; null: nobody can tell.
export function ratePerSecond<Kind extends LiveMemory>(
  before: LiveSample | undefined,
  now: LiveSample,
  counter: Counter<Kind>,
  number?: number,
): number | null {
  if (!before || now.at <= before.at) return null;
  let change = 0;
  let known = 0;
  for (const each of counter.in(now.numbers)) {
    if (number !== undefined && each.number !== number) continue;
    const then = counter.in(before.numbers).find((other) => other.number === each.number);
    if (!then || counter.of(each) < counter.of(then)) continue; // new, or its counters were reset
    change += counter.of(each) - counter.of(then);
    ++known;
  }
  return known === 0 ? null : change / (now.at - before.at);
}
