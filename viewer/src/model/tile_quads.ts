// SPDX-License-Identifier: Apache-2.0
//
// Converts a tile to rectangles: a row becomes one rectangle for each vertical position that it
// takes. x is in columns, y in bytes; the painter transforms x and y to pixels.
//
// The sum of small allocations is drawn on top, between the rows and the total. This sum changes in
// nearly every column. If it were drawn below the rows, each change would move all rows. It is
// divided into groups, by stack or by category, which are numbered after the rows of the tile.
import type { TileKey } from "../api/client.ts";
import type { AllocationTile, DocumentScene, GroupTile, Tile } from "../api/scene.ts";
import type { Axis } from "./axis.ts";
import { tileSpan } from "./tiles.ts";

export interface Quads {
  count: number;
  box: Float32Array; // left, right, bottom and top of each rectangle
  row: Uint32Array; // row of the tile, group of small allocations, or kBackground
}

export interface TileQuads extends Quads {
  positions: Float64Array | null; // as in QuadOptions
}

export const kBackground = 0xffffffff;

export interface QuadOptions {
  tolerance: number; // permitted error in bytes, less than a pixel
  limit: number; // maximum number of rectangles, which keeps drawing smooth
  smallBy: SmallBy;
  positions: Float64Array | null; // of the columns, see columnPositions()
}

export type SmallBy = "stack" | "category";

interface SmallGroups {
  group: Uint32Array | Uint8Array;
  bytes: Float64Array; // row-major, one value per column of the tile
}

function smallGroups(tile: AllocationTile, by: SmallBy): SmallGroups {
  return by === "stack"
    ? { group: tile.small_stack, bytes: tile.stack_bytes }
    : { group: tile.small_category, bytes: tile.category_bytes };
}

// Returns the number of rows of a tile, including the groups of small allocations.
export function rowCount(tile: Tile, by: SmallBy): number {
  if (tile.by !== "allocation") return tile.group.length;
  return tile.rows.id.length + smallGroups(tile, by).group.length;
}

// Returns the group of small allocations that a row stands for, with its bytes in a column; null
// for other rows.
export function smallGroupOf(
  tile: AllocationTile,
  row: number,
  by: SmallBy,
): { id: number; bytesIn: (column: number) => number } | null {
  const { group, bytes } = smallGroups(tile, by);
  const index = row - tile.rows.id.length;
  if (index < 0 || index >= group.length) return null;
  return { id: group[index], bytesIn: (column) => bytes[index * tile.entry.length + column] };
}

// Returns where the columns of a tile begin, and where the last one ends, in units of a column's
// mean width; null if all columns have the same width.
export function columnPositions(
  document: DocumentScene,
  axis: Axis,
  key: Pick<TileKey, "level" | "index">,
): Float64Array | null {
  if (axis.kind === "entry") return null;
  const { from, to } = tileSpan(document, key);
  const [begin, end] = [axis.position(from), axis.position(to)];
  return Float64Array.from({ length: document.columns + 1 }, (_, column) => {
    const entry = from + (column / document.columns) * (to - from);
    return ((axis.position(entry) - begin) / (end - begin)) * document.columns;
  });
}

export function quadsOf(tile: Tile, options: QuadOptions): TileQuads {
  const quads =
    tile.by === "allocation" ? quadsOfRows(tile, options) : quadsOfGroups(tile, options);
  const { positions } = options;
  if (positions) {
    for (let i = 0; i < 4 * quads.count; i += 4) {
      quads.box[i] = positions[quads.box[i]];
      quads.box[i + 1] = positions[quads.box[i + 1]];
    }
  }
  return { ...quads, positions };
}

function quadsOfRows(tile: AllocationTile, options: QuadOptions): Quads {
  // Above the limit, the smallest rows are not drawn separately.
  for (let smallest = 0; ; smallest = Math.max(1, 2 * options.tolerance, smallest * 4)) {
    const quads = quadsOfAllocations(tile, options, smallest);
    if (quads) return quads;
  }
}

class QuadList {
  count = 0;
  private box = new Float32Array(1024);
  private row = new Uint32Array(256);

  add(left: number, right: number, bottom: number, top: number, row: number): void {
    if (this.count === this.row.length) this.grow();
    this.box.set([left, right, bottom, top], 4 * this.count);
    this.row[this.count++] = row;
  }

  take(): Quads {
    return {
      count: this.count,
      box: this.box.slice(0, 4 * this.count),
      row: this.row.slice(0, this.count),
    };
  }

  private grow(): void {
    const box = new Float32Array(2 * this.box.length);
    const row = new Uint32Array(2 * this.row.length);
    box.set(this.box);
    row.set(this.row);
    this.box = box;
    this.row = row;
  }
}

// Adds rectangles for the total. They are drawn first, so they are visible where no row covers
// them.
function addBackground(quads: QuadList, tile: Tile, tolerance: number): void {
  const columns = tile.entry.length;
  for (let begin = 0, column = 1; begin < columns; ++column) {
    const height = tile.requested[begin];
    if (column < columns && Math.abs(tile.requested[column] - height) <= tolerance) continue;
    if (height > 0) quads.add(begin, column, 0, height, kBackground);
    begin = column;
  }
}

// The live rows of a column, oldest first, with their open rectangles.
class LiveRows {
  readonly row: number[] = [];
  private readonly since: number[] = [];
  private readonly bottom: number[] = [];

  constructor(
    private readonly tile: AllocationTile,
    private readonly quads: QuadList,
    private readonly tolerance: number,
  ) {}

  push(row: number, column: number): void {
    this.row.push(row);
    this.since.push(column);
    this.bottom.push(-1); // the row is not placed yet
  }

  remove(row: number, column: number): number {
    const at = this.row.lastIndexOf(row);
    if (at < 0) return this.row.length;
    this.draw(at, column);
    this.row.splice(at, 1);
    this.since.splice(at, 1);
    this.bottom.splice(at, 1);
    return at;
  }

  // Positions the rows from `first` on, and closes the rectangles of rows that moved visibly.
  settle(first: number, column: number): void {
    let height = first === 0 ? 0 : this.exact[first - 1] + this.bytes(first - 1);
    for (let at = first; at < this.row.length; ++at) {
      this.exact[at] = height;
      if (Math.abs(height - this.bottom[at]) > this.tolerance || this.bottom[at] < 0) {
        this.draw(at, column);
        this.since[at] = column;
        this.bottom[at] = height;
      }
      height += this.bytes(at);
    }
  }

  // Closes all rectangles.
  finish(column: number): void {
    for (let at = 0; at < this.row.length; ++at) this.draw(at, column);
  }

  // The exact positions, which are kept so that errors within the tolerance do not accumulate.
  private readonly exact: number[] = [];

  private bytes(at: number): number {
    return this.tile.rows.bytes[this.row[at]];
  }

  private draw(at: number, column: number): void {
    if (this.bottom[at] < 0 || column <= this.since[at]) return;
    const bottom = this.bottom[at];
    this.quads.add(this.since[at], column, bottom, bottom + this.bytes(at), this.row[at]);
  }
}

// Returns the quads of a tile's allocations, or null if the limit is exceeded.
function quadsOfAllocations(
  tile: AllocationTile,
  options: QuadOptions,
  smallest: number,
): Quads | null {
  const quads = new QuadList();
  addBackground(quads, tile, options.tolerance);
  addSmallGroups(quads, tile, options);
  const bytes = tile.rows.bytes;
  const live = new LiveRows(tile, quads, options.tolerance);
  for (const row of tile.first) if (bytes[row] >= smallest) live.push(row, 0);
  live.settle(0, 0);

  const changes = tile.change_column.length;
  for (let i = 0; i < changes;) {
    const column = tile.change_column[i];
    let lowest = Infinity;
    for (; i < changes && tile.change_column[i] === column; ++i) {
      const row = tile.change_row[i];
      if (bytes[row] < smallest) continue;
      if (tile.change_is_added[i]) {
        lowest = Math.min(lowest, live.row.length);
        live.push(row, column);
      } else {
        lowest = Math.min(lowest, live.remove(row, column));
      }
    }
    if (lowest < Infinity) live.settle(lowest, column);
    if (quads.count > options.limit) return null;
  }
  live.finish(tile.entry.length);
  return quads.take();
}

// Adds the small allocations, between the rows and the total.
function addSmallGroups(quads: QuadList, tile: AllocationTile, options: QuadOptions): void {
  const { group, bytes } = smallGroups(tile, options.smallBy);
  const below = tile.requested.map((all, column) => all - tile.small[column]);
  addGroups(quads, { bytes, count: group.length, first: tile.rows.id.length, below }, options);
}

function quadsOfGroups(tile: GroupTile, options: QuadOptions): Quads {
  const quads = new QuadList();
  const below = new Float64Array(tile.entry.length);
  addGroups(quads, { bytes: tile.bytes, count: tile.group.length, first: 0, below }, options);
  return quads.take();
}

interface GroupRows {
  bytes: Float64Array; // row-major, one value per column
  count: number;
  first: number; // row of the first group
  below: Float64Array; // bytes below the first group, by column
}

// Stacks the groups.
function addGroups(quads: QuadList, groups: GroupRows, options: QuadOptions): void {
  const columns = groups.below.length;
  const below = groups.below.slice();
  for (let row = 0; row < groups.count; ++row) {
    const bytes = groups.bytes.subarray(row * columns, (row + 1) * columns);
    for (let begin = 0, column = 1; begin < columns; ++column) {
      const same =
        column < columns &&
        Math.abs(below[column] - below[begin]) <= options.tolerance &&
        Math.abs(bytes[column] - bytes[begin]) <= options.tolerance;
      if (same) continue;
      if (bytes[begin] > 0) {
        const bottom = below[begin];
        quads.add(begin, column, bottom, bottom + bytes[begin], groups.first + row);
      }
      begin = column;
    }
    for (let column = 0; column < columns; ++column) below[column] += bytes[column];
  }
}

// Returns the row at a point; kBackground where only the total is drawn; -1 above all rectangles.
// If rectangles overlap, returns the row of the rectangle that was drawn last.
export function rowAt(quads: Quads, column: number, bytes: number): number {
  for (let i = quads.count - 1; i >= 0; --i) {
    const box = 4 * i;
    if (
      column >= quads.box[box] &&
      column < quads.box[box + 1] &&
      bytes >= quads.box[box + 2] &&
      bytes < quads.box[box + 3]
    ) {
      return quads.row[i];
    }
  }
  return -1;
}
