// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test } from "vitest";
import type { LiveAllocator, LiveHostAllocator, LiveStats } from "../../src/api/scene.ts";
import { ProcessEnded, RequestError, type Source } from "../../src/api/source.ts";
import { ViewClient } from "../../src/api/client.ts";
import * as live from "../../src/live.ts";
import {
  kMaxSamples,
  type LiveSample,
  ratePerSecond,
  totalBytes,
  withSample,
} from "../../src/model/live.ts";
import * as session from "../../src/session.ts";

const allocator = (number: number, allocations: number) =>
  ({ number, allocations, reserved_bytes: 100, device_calls: 1 }) as LiveAllocator;
const statsAt = (monitored_seconds: number, ...allocators: LiveAllocator[]) =>
  ({ monitored_seconds, allocators, host_allocators: [] as LiveHostAllocator[] }) as LiveStats;
const sampleAt = (at: number, ...allocators: LiveAllocator[]): LiveSample => ({
  at,
  stats: statsAt(at, ...allocators),
});

const kAllocations = {
  allocators: (stats: LiveStats) => stats.allocators,
  value: (each: LiveAllocator) => each.allocations,
};

beforeEach(() => {
  live.samples.value = [];
  live.liveError.value = null;
  session.notice.value = null;
});

test("computes rates on the process's clock", () => {
  const now = sampleAt(4, allocator(0, 150));
  expect(ratePerSecond(sampleAt(2, allocator(0, 100)), now, kAllocations)).toBe(25);
  expect(ratePerSecond(undefined, now, kAllocations)).toBe(null);
  expect(ratePerSecond(sampleAt(4, allocator(0, 100)), now, kAllocations)).toBe(null);
});

test("ignores new and reset counters in rates", () => {
  const before = sampleAt(1, allocator(0, 100), allocator(1, 100));
  const now = sampleAt(2, allocator(0, 110), allocator(1, 5), allocator(2, 1000));
  expect(ratePerSecond(before, now, kAllocations)).toBe(10);
  expect(ratePerSecond(before, now, kAllocations, 1)).toBe(null);
  expect(ratePerSecond(before, now, kAllocations, 2)).toBe(null);
  expect(totalBytes(now.stats.allocators, "reserved_bytes")).toBe(300);
});

test("counts host allocators separately", () => {
  const pinned = (number: number, host_calls: number) =>
    ({ number, host_calls, reserved_bytes: 7 }) as LiveHostAllocator;
  const before = sampleAt(1, allocator(0, 100));
  const now = sampleAt(2, allocator(0, 110));
  before.stats.host_allocators = [pinned(0, 1)];
  now.stats.host_allocators = [pinned(0, 4), pinned(1, 50)];
  const calls = {
    allocators: (stats: LiveStats) => stats.host_allocators,
    value: (each: LiveHostAllocator) => each.host_calls,
  };
  expect(ratePerSecond(before, now, calls)).toBe(3);
  expect(ratePerSecond(before, now, kAllocations)).toBe(10);
  expect(totalBytes(now.stats.host_allocators, "reserved_bytes")).toBe(14);
});

test("keeps one hour and restarts with the process", () => {
  let samples: LiveSample[] = [];
  for (let i = 1; i <= kMaxSamples + 5; ++i) samples = withSample(samples, statsAt(i));
  expect(samples.length).toBe(kMaxSamples);
  expect(samples[0].at).toBe(6);
  expect(withSample(samples, statsAt(1)).length).toBe(1);
});

function watchedBy(get: (path: string) => Promise<unknown>): Source {
  const bytes = (value: unknown) =>
    new TextEncoder().encode(JSON.stringify(value)).buffer as ArrayBuffer;
  return {
    kind: "server",
    get: async (path) => bytes(await get(path)),
    open: async () => {},
    takeSnapshot: async () => {
      throw new RequestError("no snapshot was taken");
    },
  };
}

test("reports failed requests and stops at the end of the process", async () => {
  let respond: () => Promise<unknown> = async () => statsAt(1, allocator(0, 1));
  session.client.value = new ViewClient(watchedBy(() => respond()));
  await live.poll();
  expect(live.samples.value.length).toBe(1);
  respond = async () => {
    throw new RequestError("no response came within 1500 ms");
  };
  await live.poll();
  expect(live.liveError.value).toEqual({
    message: "no response came within 1500 ms",
    hasEnded: false,
  });
  respond = async () => statsAt(3, allocator(0, 1));
  await live.poll();
  expect(live.liveError.value).toBe(null);
  expect(live.samples.value.length).toBe(2);
  respond = async () => {
    throw new ProcessEnded("process 7 has ended");
  };
  await live.watch();
  expect(live.liveError.value).toEqual({ message: "process 7 has ended", hasEnded: true });
  expect(live.samples.value.length).toBe(2);
});

test("reports a failed snapshot", async () => {
  session.client.value = new ViewClient(watchedBy(async () => statsAt(1)));
  expect(await live.takeSnapshot()).toBe(false);
  expect(session.notice.value).toBe("no snapshot was taken");
  expect(session.waiting.value).toBe(null);
});
