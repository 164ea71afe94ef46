// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test } from "vitest";
import type { LiveAllocator, LiveHostAllocator, LiveNumbers } from "../../src/ask/scene.ts";
import { Gone, Refused, type Source } from "../../src/ask/source.ts";
import { Answers } from "../../src/ask/answers.ts";
import * as live from "../../src/live.ts";
import {
  kMostSamples,
  type LiveSample,
  ratePerSecond,
  totalBytes,
  withSample,
} from "../../src/model/live.ts";
import * as session from "../../src/session.ts";

const allocator = (number: number, allocations: number) =>
  ({ number, allocations, reserved_bytes: 100, device_calls: 1 }) as LiveAllocator;
const numbersAt = (shown_seconds: number, ...allocators: LiveAllocator[]) =>
  ({ shown_seconds, allocators, host_allocators: [] as LiveHostAllocator[] }) as LiveNumbers;
const sampleAt = (at: number, ...allocators: LiveAllocator[]): LiveSample => ({
  at,
  numbers: numbersAt(at, ...allocators),
});

const kAllocations = {
  in: (numbers: LiveNumbers) => numbers.allocators,
  of: (each: LiveAllocator) => each.allocations,
};

beforeEach(() => {
  live.samples.value = [];
  live.trouble.value = null;
  session.notice.value = null;
});

test("a rate is the change between two looks, by the process's own clock", () => {
  const now = sampleAt(4, allocator(0, 150));
  expect(ratePerSecond(sampleAt(2, allocator(0, 100)), now, kAllocations)).toBe(25);
  expect(ratePerSecond(undefined, now, kAllocations)).toBe(null);
  expect(ratePerSecond(sampleAt(4, allocator(0, 100)), now, kAllocations)).toBe(null);
});

test("what is new or was reset has no rate, and does not spoil that of the others", () => {
  const before = sampleAt(1, allocator(0, 100), allocator(1, 100));
  const now = sampleAt(2, allocator(0, 110), allocator(1, 5), allocator(2, 1000));
  expect(ratePerSecond(before, now, kAllocations)).toBe(10);
  expect(ratePerSecond(before, now, kAllocations, 1)).toBe(null);
  expect(ratePerSecond(before, now, kAllocations, 2)).toBe(null);
  expect(totalBytes(now.numbers.allocators, "reserved_bytes")).toBe(300);
});

test("pinned memory of the same number is counted for itself", () => {
  const pinned = (number: number, host_calls: number) =>
    ({ number, host_calls, reserved_bytes: 7 }) as LiveHostAllocator;
  const before = sampleAt(1, allocator(0, 100));
  const now = sampleAt(2, allocator(0, 110));
  before.numbers.host_allocators = [pinned(0, 1)];
  now.numbers.host_allocators = [pinned(0, 4), pinned(1, 50)];
  const calls = {
    in: (numbers: LiveNumbers) => numbers.host_allocators,
    of: (each: LiveHostAllocator) => each.host_calls,
  };
  expect(ratePerSecond(before, now, calls)).toBe(3);
  expect(ratePerSecond(before, now, kAllocations)).toBe(10);
  expect(totalBytes(now.numbers.host_allocators, "reserved_bytes")).toBe(14);
});

test("an hour is kept, and a process that begins anew begins a new curve", () => {
  let samples: LiveSample[] = [];
  for (let i = 1; i <= kMostSamples + 5; ++i) samples = withSample(samples, numbersAt(i));
  expect(samples.length).toBe(kMostSamples);
  expect(samples[0].at).toBe(6);
  expect(withSample(samples, numbersAt(1)).length).toBe(1);
});

function watchedBy(get: (question: string) => Promise<unknown>): Source {
  const bytes = (value: unknown) =>
    new TextEncoder().encode(JSON.stringify(value)).buffer as ArrayBuffer;
  return {
    kind: "server",
    get: async (question) => bytes(await get(question)),
    open: async () => {},
    takeSnapshot: async () => {
      throw new Refused("no snapshot was taken");
    },
  };
}

test("a look that fails says why; the end of the process is the end of watching", async () => {
  let answer: () => Promise<unknown> = async () => numbersAt(1, allocator(0, 1));
  session.answers.value = new Answers(watchedBy(() => answer()));
  await live.look();
  expect(live.samples.value.length).toBe(1);
  answer = async () => {
    throw new Refused("no answer came within 1500 ms");
  };
  await live.look();
  expect(live.trouble.value).toEqual({ says: "no answer came within 1500 ms", isOver: false });
  answer = async () => numbersAt(3, allocator(0, 1));
  await live.look();
  expect(live.trouble.value).toBe(null);
  expect(live.samples.value.length).toBe(2);
  answer = async () => {
    throw new Gone("process 7 has ended");
  };
  await live.watch();
  expect(live.trouble.value).toEqual({ says: "process 7 has ended", isOver: true });
  expect(live.samples.value.length).toBe(2);
});

test("a snapshot that cannot be taken is told, and nothing is left waiting", async () => {
  session.answers.value = new Answers(watchedBy(async () => numbersAt(1)));
  expect(await live.takeSnapshot()).toBe(false);
  expect(session.notice.value).toBe("no snapshot was taken");
  expect(session.waiting.value).toBe(null);
});
