// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { ViewClient } from "../../src/api/client.ts";
import type { AllocationTile, DocumentScene, GroupTile } from "../../src/api/scene.ts";
import { entryAxis, timeAxis } from "../../src/model/axis.ts";
import {
  columnPositions,
  kBackground,
  type QuadOptions,
  quadsOf,
  rowAt,
  smallGroupOf,
} from "../../src/model/tile_quads.ts";
import {
  categoryOf,
  encodeColumns,
  isLiveAt,
  makeRun,
  type FakeAllocation,
  tileResponse,
} from "../fake_server.ts";

const kFrom = 300;
const kColumns = 200;
const run = makeRun(7, 800);
const exactly: QuadOptions = { tolerance: 0, limit: 1e9, smallBy: "stack", positions: null };

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
      else expect(smallGroupOf(tile, row, "stack")).not.toBe(null);
    }
  }
});

test("draws nothing above the requested bytes", async () => {
  const tile = await allocationTile(0);
  const quads = quadsOf(tile, exactly);
  expect(rowAt(quads, 10.5, tile.requested[10] + 1)).toBe(-1);
});

// The small allocations are drawn above all other allocations; the first of their groups is the
// lowest.
test.each([
  ["stack", (one: FakeAllocation) => one.stack],
  ["category", categoryOf],
] as const)("small allocations fill the rest of the total, by %s", async (by, groupOf) => {
  const smallest = 1e6;
  const tile = await allocationTile(smallest);
  const quads = quadsOf(tile, { ...exactly, smallBy: by });
  let checked = 0;
  for (let column = 0; column < kColumns; column += 3) {
    let height = tile.requested[column] - tile.small[column];
    for (let group = 0; group < 9; ++group) {
      const bytes = run
        .filter((one) => isLiveAt(one, kFrom + column) && one.bytes < smallest)
        .filter((one) => groupOf(one) === group)
        .reduce((sum, one) => sum + one.bytes, 0);
      if (bytes === 0) continue;
      const row = rowAt(quads, column + 0.5, height + bytes / 2);
      const found = smallGroupOf(tile, row, by)!;
      expect(found.id).toBe(group);
      expect(found.bytesIn(column)).toBe(bytes);
      height += bytes;
      checked += 1;
    }
    expect(height).toBe(tile.requested[column]);
  }
  expect(checked).toBeGreaterThan(50);
});

test("columns of a time axis are as wide as their duration", async () => {
  const tile = await allocationTile(4096);
  const document = { entries: 800, columns: 400, levels: 2 } as DocumentScene;
  // The first half of the run takes nine times as long as the second.
  const clock = {
    entry: Uint32Array.of(0, 400, 799),
    time_us: Float64Array.of(0, 900, 1000),
  };
  const axis = timeAxis(document.entries, clock)!;
  const positions = columnPositions(document, axis, { level: 0, index: 0 })!;
  expect(positions[0]).toBe(0);
  expect(positions[400]).toBeCloseTo(400);
  expect(positions[200] / positions[400]).toBeCloseTo(0.9, 2);
  expect(columnPositions(document, entryAxis(800), { level: 0, index: 0 })).toBe(null);
  const quads = quadsOf(tile, { ...exactly, positions });
  const plain = quadsOf(tile, exactly);
  for (let i = 0; i < plain.count; ++i) {
    expect(quads.box[4 * i]).toBeCloseTo(positions[plain.box[4 * i]], 3);
    expect(quads.box[4 * i + 1]).toBeCloseTo(positions[plain.box[4 * i + 1]], 3);
    expect(quads.box[4 * i + 2]).toBe(plain.box[4 * i + 2]);
  }
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
  const rough = quadsOf(tile, { ...exactly, tolerance });
  expect(rough.count).toBeLessThan(0.7 * exact.count);
  const bottoms = (quads: typeof exact, column: number) =>
    new Map(
      [...Array(quads.count).keys()]
        .filter((i) => quads.box[4 * i] <= column && column < quads.box[4 * i + 1])
        .map((i) => [quads.row[i], quads.box[4 * i + 2]]),
    );
  for (let column = 0; column < kColumns; column += 11) {
    const roughBottoms = bottoms(rough, column);
    for (const [row, bottom] of bottoms(exact, column)) {
      expect(Math.abs(roughBottoms.get(row)! - bottom)).toBeLessThanOrEqual(tolerance + 1);
    }
  }
});

test("drops the smallest allocations above the limit", async () => {
  const tile = await allocationTile(0);
  const all = quadsOf(tile, exactly);
  const few = quadsOf(tile, { ...exactly, tolerance: 1000, limit: all.count / 4 });
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
