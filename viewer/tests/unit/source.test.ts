// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { getPatiently, type Source, StillLoading } from "../../src/ask/source.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("nobody goes on asking for what is not wanted any more", async () => {
  let asked = 0;
  const source = {
    get: async () => {
      ++asked;
      throw new StillLoading("replaying", null);
    },
  } as unknown as Source;
  let isWanted = true;
  const answer = getPatiently(source, "causes.json", {
    progress: () => {},
    isWanted: () => isWanted,
  });
  const ended = expect(answer).rejects.toBeInstanceOf(StillLoading);
  await vi.advanceTimersByTimeAsync(600);
  expect(asked).toBe(3);
  isWanted = false;
  await vi.advanceTimersByTimeAsync(5000);
  await ended;
  expect(asked).toBe(3);
});
