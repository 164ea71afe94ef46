// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { DocumentScene } from "../../src/api/scene.ts";
import * as tiles from "../../src/model/tiles.ts";

const document = { entries: 100_000, columns: 512, levels: 9 } as DocumentScene;
const want = (level: number) => ({ by: "allocation" as const, level, detail: 0, index: 0 });

test("columns are one to two pixels wide except at the deepest level", () => {
  for (const to of [100_000, 50_000, 7_000, 1_500]) {
    const level = tiles.levelFor(document, { from: 0, to }, 1000);
    const pixels = (tiles.entriesPerColumn(document, level) / to) * 1000;
    expect(pixels).toBeGreaterThanOrEqual(1);
    expect(pixels).toBeLessThan(2);
  }
  expect(tiles.levelFor(document, { from: 0, to: 50 }, 1000)).toBe(8);
});

test("the tiles of a span cover it and stay within the document", () => {
  const keys = tiles.tilesFor(document, { from: 90_000, to: 120_000 }, want(8));
  expect(keys[0].index).toBe(Math.floor(90_000 / 512));
  expect(keys[keys.length - 1].index).toBe(Math.floor(99_999 / 512));
  expect(tiles.tilesFor(document, { from: 0, to: 512 }, want(8)).length).toBe(1);
});

test("fallback tiles have less detail first, then upper levels", () => {
  const key = { document: 0, by: "allocation" as const, level: 2, index: 3, detail: 1 };
  const found = [...tiles.fallbackTiles(key)].map((other) => [
    other.level,
    other.index,
    other.detail,
  ]);
  expect(found).toEqual([
    [2, 3, 0],
    [1, 1, 1],
    [1, 1, 0],
    [0, 0, 1],
    [0, 0, 0],
  ]);
});

test("each of four detail steps quadruples the magnification", () => {
  expect([1, 4, 16, 64, 256, 4096].map(tiles.detailFor)).toEqual([0, 1, 2, 3, 4, 4]);
});
