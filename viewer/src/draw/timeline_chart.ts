// SPDX-License-Identifier: Apache-2.0
//
// The timeline on its two canvases: rectangles of tiles below, axes, lines and marks above. It is
// told what to show and tells what lies under the pointer; it changes no state of its own accord.
import type { TileKey } from "../ask/answers.ts";
import { kNone, type Tile } from "../ask/scene.ts";
import { packColor } from "../model/colors.ts";
import { kBackground, rowAt } from "../model/tile_quads.ts";
import { columnOf, detailFor, levelFor, tileSpan, tilesFor } from "../model/tiles.ts";
import { makePainter, type Placement, type QuadPainter } from "./quad_painter.ts";
import { type DrawnTile, TileStore } from "./tile_store.ts";
import { drawOverlay, type LinePiece } from "./timeline_overlay.ts";
import { kMargin, type TimelineWish } from "./timeline_wish.ts";

const kMostQuads = 60_000; // of a tile; a screen has about three

export interface UnderPointer {
  entry: number;
  time_us: number;
  requested: number;
  reserved: number;
  tile: Tile;
  column: number;
  row: number; // kBackground: something small; -1: above everything
}

// What a chart has to say of itself.
export interface TimelineTells {
  // A tile could not be had, and why; null: they come again.
  trouble: (says: string | null) => void;
  // Whether something is drawn from a coarser level, since there is no finer one.
  lacks: (isSo: boolean) => void;
}

const kMarkReach = 6; // pixels on both sides of a mark

export class TimelineChart {
  private readonly painter: QuadPainter;
  private store: TileStore | null = null;
  private wish: TimelineWish | null = null;
  private frame = 0;
  // The rectangles of the last frame, which are still right while only a cursor moves.
  private pieces: LinePiece[] = [];
  private isStale = true;

  constructor(
    private readonly host: HTMLElement,
    canvas: HTMLCanvasElement,
    private readonly overlay: HTMLCanvasElement,
    private readonly tells: TimelineTells,
  ) {
    this.painter = makePainter(canvas, () => this.redraw());
    host.dataset.painter = this.painter.kind;
  }

  show(wish: TimelineWish): void {
    if (wish.answers !== this.wish?.answers || wish.document !== this.wish?.document) {
      this.store?.release();
      const tolerance = wish.document.peak.requested / 2400;
      this.store = new TileStore(wish.answers, this.painter, {
        wish: (key) => ({ tolerance: tolerance / 4 ** key.detail, limit: kMostQuads }),
        arrived: () => this.redraw(),
        trouble: this.tells.trouble,
      });
    }
    this.isStale ||= !this.wish || !showsTheSame(this.wish, wish);
    this.wish = wish;
    this.drawSoon();
  }

  // Everything, since tiles came in or the size changed.
  redraw(): void {
    this.isStale = true;
    this.drawSoon();
  }

  release(): void {
    cancelAnimationFrame(this.frame);
    this.store?.release();
    this.painter.release();
  }

  private drawSoon(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  plotWidth(): number {
    return Math.max(1, this.host.clientWidth - kMargin.left - kMargin.right);
  }

  plotHeight(): number {
    return Math.max(1, this.host.clientHeight - kMargin.top - kMargin.bottom);
  }

  entryAt(x: number): number {
    const { span } = this.wish!;
    return span.from + ((x - kMargin.left) / this.plotWidth()) * (span.to - span.from);
  }

  bytesAt(y: number): number {
    const { bytes } = this.wish!;
    const share = (y - kMargin.top) / this.plotHeight();
    return bytes.to + share * (bytes.from - bytes.to);
  }

  // What lies at a place of the host, or null outside of the plot.
  under(x: number, y: number): UnderPointer | null {
    const wish = this.wish;
    if (!wish || !this.store || x < kMargin.left || y < kMargin.top) return null;
    const at = this.entryAt(x);
    if (at < 0 || at >= wish.document.entries || x > kMargin.left + this.plotWidth()) return null;
    for (const key of this.keys(wish)) {
      const span = tileSpan(wish.document, key);
      if (at < span.from || at >= span.to) continue;
      const drawn = this.store.best(key);
      if (!drawn) return null;
      const { tile } = drawn;
      const column = Math.min(columnOf(wish.document, drawn.key, at), tile.entry.length - 1);
      return {
        entry: tile.entry[column],
        time_us: tile.time_us[column],
        requested: tile.requested[column],
        reserved: tile.reserved[column],
        tile,
        column,
        row: rowAt(drawn.quads, column + 0.5, this.bytesAt(y)),
      };
    }
    return null;
  }

  // What the mark above the plot at a place of the host says, or null where there is none.
  markAt(x: number, y: number): string | null {
    if (!this.wish || y >= kMargin.top) return null;
    const { document } = this.wish;
    const perEntry = this.plotWidth() / (this.wish.span.to - this.wish.span.from);
    const marks = [
      ...document.ooms.map(({ entry }) => ({ entry, text: "out of memory" })),
      ...document.annotations,
    ];
    const away = (mark: { entry: number }) =>
      Math.abs(mark.entry + 0.5 - this.entryAt(x)) * perEntry;
    const near = marks.filter((mark) => away(mark) <= kMarkReach);
    if (near.length === 0) return null;
    return near.reduce((best, mark) => (away(mark) < away(best) ? mark : best)).text;
  }

  private keys(wish: TimelineWish): TileKey[] {
    return tilesFor(wish.document, wish.span, {
      by: wish.by,
      level: levelFor(wish.document, wish.span, this.plotWidth()),
      detail: detailFor(wish.document.peak.requested / (wish.bytes.to - wish.bytes.from)),
      index: wish.number,
    });
  }

  private draw(): void {
    this.frame = 0;
    const { wish, store } = this;
    if (!wish || !store) return;
    const keys = this.keys(wish);
    const top: TileKey = { ...keys[0], level: 0, index: 0, detail: 0 };
    store.want([top, ...keys]);
    if (this.isStale) this.pieces = this.paint(wish, store, keys);
    this.isStale = false;
    drawOverlay(this.overlay, wish, this.pieces, {
      width: this.host.clientWidth,
      height: this.host.clientHeight,
    });
    this.tells.lacks(keys.some((key) => store.lacks(key)));
    this.tell(store.isSettled([top, ...keys]));
  }

  private paint(wish: TimelineWish, store: TileStore, keys: TileKey[]): LinePiece[] {
    const width = this.plotWidth();
    const height = this.plotHeight();
    this.painter.start(width, height, devicePixelRatio);
    const pieces: LinePiece[] = [];
    for (const key of keys) {
      const drawn = store.best(key);
      if (!drawn) continue;
      this.color(drawn, wish);
      const place = placementOf(wish, key, drawn, { width, height });
      drawn.painted.draw(place);
      pieces.push({ tile: drawn.tile, ...place });
    }
    return pieces;
  }

  private color(drawn: DrawnTile, wish: TimelineWish): void {
    if (drawn.coloredAs === wish.colorOf) return;
    drawn.coloredAs = wish.colorOf;
    const rows =
      drawn.tile.by === "allocation" ? drawn.tile.rows.id.length : drawn.tile.group.length;
    const ofRow = new Uint32Array(rows);
    for (let row = 0; row < rows; ++row) ofRow[row] = packColor(wish.colorOf(drawn.tile, row));
    const background = packColor(wish.colorOf(drawn.tile, kNone));
    const colors = new Uint32Array(drawn.quads.count);
    drawn.quads.row.forEach((row, i) => {
      colors[i] = row === kBackground ? background : ofRow[row];
    });
    drawn.painted.setColors(colors);
  }

  // Tests and measurements wait for this.
  private tell(settled: boolean): void {
    this.host.dataset.settled = String(settled);
    this.host.dispatchEvent(new CustomEvent("ashlar:drawn", { detail: { settled } }));
  }
}

// Whether the rectangles are the same: cursors and the pointer have a canvas of their own.
function showsTheSame(a: TimelineWish, b: TimelineWish): boolean {
  return (
    a.answers === b.answers &&
    a.document === b.document &&
    a.by === b.by &&
    a.span.from === b.span.from &&
    a.span.to === b.span.to &&
    a.bytes.from === b.bytes.from &&
    a.bytes.to === b.bytes.to &&
    a.colorOf === b.colorOf
  );
}

// Where a tile's columns and bytes lie in the plot, cut to the part that it was wanted for.
function placementOf(
  wish: TimelineWish,
  key: TileKey,
  drawn: DrawnTile,
  plot: { width: number; height: number },
): Placement {
  const { document, span, bytes } = wish;
  const perEntry = plot.width / (span.to - span.from);
  const perByte = plot.height / (bytes.to - bytes.from);
  const has = tileSpan(document, drawn.key);
  const wanted = tileSpan(document, key);
  return {
    scaleX: (perEntry * (has.to - has.from)) / document.columns,
    offsetX: (has.from - span.from) * perEntry,
    scaleY: -perByte,
    offsetY: plot.height + bytes.from * perByte,
    left: (wanted.from - span.from) * perEntry,
    right: (Math.min(wanted.to, document.entries) - span.from) * perEntry,
  };
}
