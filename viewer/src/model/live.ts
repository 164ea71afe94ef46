// SPDX-License-Identifier: Apache-2.0
//
// Samples of the monitored process: totals over its allocators, and rates between two samples.
import type { LiveMemory, LiveStats } from "../api/scene.ts";

export const kMaxSamples = 3600; // one hour at one sample per second

export interface LiveSample {
  stats: LiveStats;
  at: number; // seconds since the process started monitoring
}

// Appends a sample. Drops the earlier samples if monitoring was restarted.
export function withSample(samples: LiveSample[], stats: LiveStats): LiveSample[] {
  const at = stats.monitored_seconds;
  const last = samples.at(-1);
  const before = last && at <= last.at ? [] : samples;
  return [...before, { stats, at }].slice(-kMaxSamples);
}

type ByteKey = "reserved_bytes" | "active_bytes" | "allocated_bytes" | "requested_bytes";
export function totalBytes(allocators: LiveMemory[], key: ByteKey): number {
  return allocators.reduce((sum, each) => sum + each[key], 0);
}

// A counter of device or host allocators.
export interface Counter<Kind extends LiveMemory> {
  allocators: (stats: LiveStats) => Kind[];
  value: (allocator: Kind) => number;
}

// Returns the rate of a counter, for one allocator or summed over all allocators that are in both
// samples; null if it is unknown.
export function ratePerSecond<Kind extends LiveMemory>(
  before: LiveSample | undefined,
  now: LiveSample,
  counter: Counter<Kind>,
  number?: number,
): number | null {
  if (!before || now.at <= before.at) return null;
  let change = 0;
  let known = 0;
  for (const each of counter.allocators(now.stats)) {
    if (number !== undefined && each.number !== number) continue;
    const then = counter.allocators(before.stats).find((other) => other.number === each.number);
    if (!then || counter.value(each) < counter.value(then)) continue; // new or reset counter
    change += counter.value(each) - counter.value(then);
    ++known;
  }
  return known === 0 ? null : change / (now.at - before.at);
}
