// SPDX-License-Identifier: Apache-2.0
//
// Mapping between tiles and entries. Each tile has `columns` columns. A column has one entry in the
// deepest level, two entries in the level above, and so on; the parent of (level, index) is
// (level - 1, index / 2).
import type { TileKey } from "../api/client.ts";
import type { DocumentScene, Grouping } from "../api/scene.ts";

export interface Span {
  from: number; // first entry; may be fractional
  to: number; // one past the last entry
}

export function entriesPerColumn(document: DocumentScene, level: number): number {
  return 2 ** (document.levels - 1 - level);
}

export function tileSpan(document: DocumentScene, key: { level: number; index: number }): Span {
  const entries = entriesPerColumn(document, key.level) * document.columns;
  return { from: key.index * entries, to: (key.index + 1) * entries };
}

// Returns the finest level whose columns are at least a pixel wide, or level 0.
export function levelFor(document: DocumentScene, span: Span, pixels: number): number {
  const entriesPerPixel = (span.to - span.from) / Math.max(1, pixels);
  const up = Math.max(0, Math.ceil(Math.log2(entriesPerPixel)));
  return Math.max(0, document.levels - 1 - up);
}

// Returns the tiles of a level that show a span, left to right.
export function tilesFor(
  document: DocumentScene,
  span: Span,
  want: { by: Grouping; level: number; detail: number; index: number },
): TileKey[] {
  const entries = entriesPerColumn(document, want.level) * document.columns;
  const last = Math.floor((document.entries - 1) / entries);
  const from = Math.max(0, Math.floor(span.from / entries));
  const to = Math.min(last, Math.ceil(span.to / entries) - 1);
  const keys: TileKey[] = [];
  for (let index = from; index <= to; ++index) {
    keys.push({
      document: want.index,
      by: want.by,
      level: want.level,
      index,
      detail: want.by === "allocation" ? want.detail : 0,
    });
  }
  return keys;
}

// Yields the tiles to draw while a tile is loading, best first: the same position with less detail,
// then the levels above, up to level 0.
export function* fallbackTiles(key: TileKey): Generator<TileKey> {
  for (let level = key.level; level >= 0; --level) {
    const index = key.index >> (key.level - level);
    for (let detail = key.detail; detail >= 0; --detail) {
      if (level === key.level && detail === key.detail) continue;
      yield { ...key, level, index, detail };
    }
  }
}

// Returns the detail for a vertical magnification. Each step resolves allocations of a quarter of
// the size.
export function detailFor(magnification: number): number {
  return Math.min(4, Math.max(0, Math.ceil(Math.log(magnification) / Math.log(4) - 0.25)));
}

// Returns the column of a tile that contains an entry.
export function columnOf(document: DocumentScene, key: TileKey, entry: number): number {
  const span = tileSpan(document, key);
  return Math.floor((entry - span.from) / entriesPerColumn(document, key.level));
}
