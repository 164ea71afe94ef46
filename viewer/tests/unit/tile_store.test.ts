// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Answers, type TileKey } from "../../src/ask/answers.ts";
import { Refused, type Source } from "../../src/ask/source.ts";
import type { QuadPainter } from "../../src/draw/quad_painter.ts";
import { TileStore } from "../../src/draw/tile_store.ts";
import { makeRun, tileAnswer } from "../standin.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const key: TileKey = { document: 0, by: "allocation", level: 1, index: 0, detail: 0 };
const painter = {
  kind: "canvas",
  start: () => {},
  add: () => ({ setColors: () => {}, draw: () => {}, release: () => {} }),
  release: () => {},
} satisfies QuadPainter;

// A store that wants the tile whenever something changes, as a chart does.
function storeOn(kind: Source["kind"], failures: number) {
  const tile = tileAnswer(makeRun(1, 50), 0, 20, 0);
  const seen = { asked: 0, says: [] as (string | null)[] };
  const get = async () => {
    if (++seen.asked <= failures) throw new Refused("nobody answers");
    return tile;
  };
  const source: Source = { kind, get, open: async () => {}, takeSnapshot: async () => {} };
  const store: TileStore = new TileStore(new Answers(source), painter, {
    wish: () => ({ tolerance: 0, limit: 1e6 }),
    arrived: () => store.want([key]),
    trouble: (says) => void seen.says.push(says),
  });
  store.want([key]);
  return { store, seen };
}

test("a tile that a server did not give is told of, and asked for again", async () => {
  const { store, seen } = storeOn("server", 2);
  await vi.advanceTimersByTimeAsync(100);
  expect(seen).toEqual({ asked: 1, says: ["nobody answers"] });
  expect(store.isSettled([key])).toBe(false);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(seen).toEqual({ asked: 3, says: ["nobody answers", "nobody answers", null] });
  expect(store.isSettled([key])).toBe(true);
  expect(store.lacks(key)).toBe(false);
});

test("what a self-contained file lacks it lacks for good, and that can be asked", async () => {
  const { store, seen } = storeOn("file", 1);
  await vi.advanceTimersByTimeAsync(100_000);
  expect(seen).toEqual({ asked: 1, says: [] });
  expect(store.isSettled([key])).toBe(true);
  expect(store.lacks(key)).toBe(true);
});

test("a store that was released asks no more", async () => {
  const { store, seen } = storeOn("server", 99);
  await vi.advanceTimersByTimeAsync(100);
  store.release();
  await vi.advanceTimersByTimeAsync(100_000);
  expect(seen.asked).toBe(1);
});
