// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { ViewClient } from "../../src/api/client.ts";
import type { AllocationTile, GroupTile } from "../../src/api/scene.ts";
import { kBackground, quadsOf, rowAt } from "../../src/model/tile_quads.ts";
import {
  encodeColumns,
  isLiveAt,
  makeRun,
  type FakeAllocation,
  tileResponse,
} from "../fake_server.ts";

const kFrom = 300;
const kColumns = 200;
const run = makeRun(7, 800);
const exactly = { tolerance: 0, limit: 1e9 };

async function read(by: "allocation" | "stream", bytes: ArrayBuffer) {
  const source = {
    kind: "server" as const,
    get: async () => bytes,
    open: async () => {},
    takeSnapshot: async () => {},
  };
  return new ViewClient(source).tile({ document: 0, by, level: 0, index: 0, detail: 0 });
}

const allocationTile = async (smallest: number) =>
  (await read("allocation", tileResponse(run, kFrom, kColumns, smallest))) as AllocationTile;

// Returns the allocation at a height of a column, computed from the run: oldest at the bottom.
function allocationAt(column: number, bytes: number, smallest: number): FakeAllocation | null {
  let height = 0;
  for (const one of run) {
    if (one.bytes < smallest || !isLiveAt(one, kFrom + column)) continue;
    height += one.bytes;
    if (bytes < height) return one;
  }
  return null;
}

test("draws each allocation at its position, oldest at the bottom", async () => {
  const smallest = 4096;
  const tile = await allocationTile(smallest);
  const quads = quadsOf(tile, exactly);
  for (let column = 0; column < kColumns; column += 7) {
    for (let share = 0.01; share < 1; share += 0.09) {
      const bytes = share * tile.requested[column];
      const row = rowAt(quads, column + 0.5, bytes);
      const expected = allocationAt(column, bytes, smallest);
      if (expected) expect(run[tile.rows.id[row]]).toBe(expected);
      else expect(row).toBe(kBackground);
    }
  }
});

test("draws nothing above the requested bytes", async () => {
  const tile = await allocationTile(0);
  const quads = quadsOf(tile, exactly);
  expect(rowAt(quads, 10.5, tile.requested[10] + 1)).toBe(-1);
});

test("small allocations fill the rest of the total", async () => {
  const tile = await allocationTile(1e6);
  const quads = quadsOf(tile, exactly);
  let checked = 0;
  for (let column = 0; column < kColumns; ++column) {
    if (tile.small[column] === 0) continue;
    const shown = tile.requested[column] - tile.small[column];
    expect(rowAt(quads, column + 0.5, shown + 1)).toBe(kBackground);
    checked += 1;
  }
  expect(checked).toBeGreaterThan(0);
});

test("rectangles of a column tile it without gaps or overlaps", async () => {
  const quads = quadsOf(await allocationTile(0), exactly);
  for (const column of [0, 77, 199]) {
    const here = [...Array(quads.count).keys()]
      .filter((i) => quads.row[i] !== kBackground)
      .filter((i) => quads.box[4 * i] <= column && column < quads.box[4 * i + 1])
      .map((i) => [quads.box[4 * i + 2], quads.box[4 * i + 3]])
      .sort((a, b) => a[0] - b[0]);
    expect(here[0][0]).toBe(0);
    for (let i = 1; i < here.length; ++i) expect(here[i][0]).toBe(here[i - 1][1]);
  }
});

test("saves rectangles within the tolerance", async () => {
  const tile = await allocationTile(0);
  const exact = quadsOf(tile, exactly);
  const tolerance = 200_000;
  const rough = quadsOf(tile, { tolerance, limit: 1e9 });
  expect(rough.count).toBeLessThan(0.7 * exact.count);
  const bottoms = (quads: typeof exact, column: number) =>
    new Map(
      [...Array(quads.count).keys()]
        .filter((i) => quads.box[4 * i] <= column && column < quads.box[4 * i + 1])
        .map((i) => [quads.row[i], quads.box[4 * i + 2]]),
    );
  for (let column = 0; column < kColumns; column += 11) {
    const there = bottoms(rough, column);
    for (const [row, bottom] of bottoms(exact, column)) {
      expect(Math.abs(there.get(row)! - bottom)).toBeLessThanOrEqual(tolerance + 1);
    }
  }
});

test("drops the smallest allocations above the limit", async () => {
  const tile = await allocationTile(0);
  const all = quadsOf(tile, exactly);
  const few = quadsOf(tile, { tolerance: 1000, limit: all.count / 4 });
  expect(few.count).toBeLessThanOrEqual(all.count / 3);
  const bytes = [...few.row]
    .filter((row) => row !== kBackground)
    .map((row) => tile.rows.bytes[row]);
  const given = [...all.row].filter((row) => row !== kBackground && !few.row.includes(row));
  expect(Math.max(...given.map((row) => tile.rows.bytes[row]))).toBeLessThan(Math.min(...bytes));
});

test("stacks groups in the order of the tile", async () => {
  const columns = [0, 1, 2];
  const tile = (await read(
    "stream",
    encodeColumns({
      entry: ["u32", columns],
      time_us: ["f64", columns],
      requested: ["f64", [30, 30, 15]],
      allocated: ["f64", [30, 30, 15]],
      reserved: ["f64", [40, 40, 40]],
      reserved_high: ["f64", [50, 50, 50]],
      requested_low: ["f64", [30, 30, 0]],
      group: ["u32", [5, 2]],
      bytes: ["f64", [10, 10, 0, 20, 20, 15]],
    }),
  )) as GroupTile;
  const quads = quadsOf(tile, exactly);
  expect(rowAt(quads, 1.5, 9)).toBe(0);
  expect(rowAt(quads, 1.5, 11)).toBe(1);
  expect(rowAt(quads, 2.5, 1)).toBe(1);
  expect(quads.count).toBe(3);
});
