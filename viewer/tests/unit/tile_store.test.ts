// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ViewClient, type TileKey } from "../../src/api/client.ts";
import { RequestError, type Source } from "../../src/api/source.ts";
import type { QuadPainter } from "../../src/draw/quad_painter.ts";
import { TileStore } from "../../src/draw/tile_store.ts";
import { makeRun, tileResponse } from "../fake_server.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const key: TileKey = { document: 0, by: "allocation", level: 1, index: 0, detail: 0 };
const painter = {
  kind: "canvas",
  start: () => {},
  add: () => ({ setColors: () => {}, draw: () => {}, release: () => {} }),
  release: () => {},
} satisfies QuadPainter;

// Returns a store that requests the tile after every change, like a chart.
function storeOn(kind: Source["kind"], failures: number) {
  const tile = tileResponse(makeRun(1, 50), 0, 20, 0);
  const seen = { requests: 0, message: [] as (string | null)[] };
  const get = async () => {
    if (++seen.requests <= failures) throw new RequestError("no response");
    return tile;
  };
  const source: Source = { kind, get, open: async () => {}, takeSnapshot: async () => {} };
  const store: TileStore = new TileStore(new ViewClient(source), painter, {
    quadOptions: () => ({ tolerance: 0, limit: 1e6, smallBy: "stack", positions: null }),
    onArrival: () => store.want([key]),
    onError: (message) => void seen.message.push(message),
  });
  store.want([key]);
  return { store, seen };
}

test("reports and retries a failed tile", async () => {
  const { store, seen } = storeOn("server", 2);
  await vi.advanceTimersByTimeAsync(100);
  expect(seen).toEqual({ requests: 1, message: ["no response"] });
  expect(store.isSettled([key])).toBe(false);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(seen).toEqual({ requests: 3, message: ["no response", "no response", null] });
  expect(store.isSettled([key])).toBe(true);
  expect(store.isMissing(key)).toBe(false);
});

test("does not retry tiles missing in a self-contained file", async () => {
  const { store, seen } = storeOn("file", 1);
  await vi.advanceTimersByTimeAsync(100_000);
  expect(seen).toEqual({ requests: 1, message: [] });
  expect(store.isSettled([key])).toBe(true);
  expect(store.isMissing(key)).toBe(true);
});

test("sends no requests after release", async () => {
  const { store, seen } = storeOn("server", 99);
  await vi.advanceTimersByTimeAsync(100);
  store.release();
  await vi.advanceTimersByTimeAsync(100_000);
  expect(seen.requests).toBe(1);
});
