// SPDX-License-Identifier: Apache-2.0
//
// Converts a tile to rectangles: a row becomes one rectangle for each position that it takes. x is
// in columns, y in bytes; the painter transforms both to pixels.
//
// The sum of small allocations is drawn on top, between the rows and the total. This sum changes in
// nearly every column. If it were drawn below the rows, each change would move all rows.
import type { AllocationTile, GroupTile, Tile } from "../api/scene.ts";

export interface Quads {
  count: number;
  box: Float32Array; // left, right, bottom and top of each rectangle
  row: Uint32Array; // row of the tile, or kBackground
}

export const kBackground = 0xffffffff;

export interface QuadOptions {
  tolerance: number; // permitted error in bytes, less than a pixel
  limit: number; // maximum number of rectangles for smooth drawing
}

export function quadsOf(tile: Tile, options: QuadOptions): Quads {
  if (tile.by !== "allocation") return quadsOfGroups(tile, options);
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

// Adds the total in the neutral colour, which is visible where no row covers it.
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

function quadsOfGroups(tile: GroupTile, options: QuadOptions): Quads {
  const quads = new QuadList();
  const columns = tile.entry.length;
  const below = new Float64Array(columns);
  for (let row = 0; row < tile.group.length; ++row) {
    const bytes = tile.bytes.subarray(row * columns, (row + 1) * columns);
    for (let begin = 0, column = 1; begin < columns; ++column) {
      const same =
        column < columns &&
        Math.abs(below[column] - below[begin]) <= options.tolerance &&
        Math.abs(bytes[column] - bytes[begin]) <= options.tolerance;
      if (same) continue;
      if (bytes[begin] > 0) {
        quads.add(begin, column, below[begin], below[begin] + bytes[begin], row);
      }
      begin = column;
    }
    for (let column = 0; column < columns; ++column) below[column] += bytes[column];
  }
  return quads.take();
}

// Returns the row at a point, kBackground, or -1 above everything. If rectangles overlap, returns
// the row of the one drawn last.
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
