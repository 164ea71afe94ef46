// SPDX-License-Identifier: Apache-2.0
//
// Which tiles show which entries. A level has tiles of `columns` columns; in the deepest level a
// column is one entry, a level up two, so the tile above (level, index) is (level - 1, index / 2).
import type { TileKey } from "../ask/answers.ts";
import type { DocumentScene, Grouping } from "../ask/scene.ts";

export interface Span {
  from: number; // the first entry, may lie between two
  to: number; // past the last
}

const kFewestEntries = 24; // the most one can zoom in to

export function entriesPerColumn(document: DocumentScene, level: number): number {
  return 2 ** (document.levels - 1 - level);
}

export function tileSpan(document: DocumentScene, key: { level: number; index: number }): Span {
  const entries = entriesPerColumn(document, key.level) * document.columns;
  return { from: key.index * entries, to: (key.index + 1) * entries };
}

// The coarsest level whose columns are not much wider than a pixel.
export function levelFor(document: DocumentScene, span: Span, pixels: number): number {
  const entriesPerPixel = (span.to - span.from) / Math.max(1, pixels);
  const up = Math.max(0, Math.ceil(Math.log2(entriesPerPixel)));
  return Math.max(0, document.levels - 1 - up);
}

// The tiles of a level that show a span, left to right.
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

// What can stand in for a tile while it is on its way, best first: the same place with less detail,
// then a level up, and so on to the one tile of level 0.
export function* standIns(key: TileKey): Generator<TileKey> {
  for (let level = key.level; level >= 0; --level) {
    const index = key.index >> (key.level - level);
    for (let detail = key.detail; detail >= 0; --detail) {
      if (level === key.level && detail === key.detail) continue;
      yield { ...key, level, index, detail };
    }
  }
}

// How much detail a vertical magnification can show: each step shows allocations a quarter as
// large.
export function detailFor(magnification: number): number {
  return Math.min(4, Math.max(0, Math.ceil(Math.log(magnification) / Math.log(4) - 0.25)));
}

// The column of a tile in which an entry lies.
export function columnOf(document: DocumentScene, key: TileKey, entry: number): number {
  const span = tileSpan(document, key);
  return Math.floor((entry - span.from) / entriesPerColumn(document, key.level));
}

export function wholeSpan(document: DocumentScene): Span {
  return { from: 0, to: Math.max(1, document.entries) };
}

// As much of it as the document has; as long as it was, where it lies beyond the end.
export function clampSpan(document: DocumentScene, span: Span): Span {
  const most = wholeSpan(document).to;
  return within(most, span.from, Math.min(most, span.to - span.from));
}

// Zooms so that the entry `around` keeps its place on the screen, and stays within the document.
export function zoomSpan(
  document: DocumentScene,
  span: Span,
  zoom: { around: number; factor: number },
): Span {
  const most = wholeSpan(document).to;
  const length = Math.min(
    most,
    Math.max(Math.min(kFewestEntries, most), (span.to - span.from) * zoom.factor),
  );
  const share = (zoom.around - span.from) / (span.to - span.from);
  return within(most, zoom.around - share * length, length);
}

export function panSpan(document: DocumentScene, span: Span, entries: number): Span {
  return within(wholeSpan(document).to, span.from + entries, span.to - span.from);
}

function within(most: number, from: number, length: number): Span {
  const begin = Math.min(Math.max(0, from), Math.max(0, most - length));
  return { from: begin, to: begin + length };
}
