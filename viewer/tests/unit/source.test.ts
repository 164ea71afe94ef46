// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { getWithRetry, type Source, StillLoading } from "../../src/api/source.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("stops retrying once the response is no longer wanted", async () => {
  let requestCount = 0;
  const source = {
    get: async () => {
      ++requestCount;
      throw new StillLoading("replaying", null);
    },
  } as unknown as Source;
  let isWanted = true;
  const response = getWithRetry(source, "causes.json", {
    progress: () => {},
    isWanted: () => isWanted,
  });
  const ended = expect(response).rejects.toBeInstanceOf(StillLoading);
  await vi.advanceTimersByTimeAsync(600);
  expect(requestCount).toBe(3);
  isWanted = false;
  await vi.advanceTimersByTimeAsync(5000);
  await ended;
  expect(requestCount).toBe(3);
});
