// SPDX-License-Identifier: Apache-2.0
//
// The timeline on two canvases: rectangles of tiles on the lower canvas; axes, lines and marks on
// the upper canvas. The chart draws the given options and performs hit tests, but does not change
// the options.
import type { TileKey } from "../api/client.ts";
import { kNone, type Tile } from "../api/scene.ts";
import { packColor } from "../model/colors.ts";
import { columnPositions, kBackground, rowAt, rowCount } from "../model/tile_quads.ts";
import { columnOf, detailFor, levelFor, tileSpan, tilesFor } from "../model/tiles.ts";
import { makePainter, type Placement, type QuadPainter } from "./quad_painter.ts";
import { type DrawnTile, TileStore } from "./tile_store.ts";
import { drawOverlay, type LinePiece } from "./timeline_overlay.ts";
import { HorizontalScale, kMargin, type TimelineOptions } from "./timeline_options.ts";

const kMaxQuads = 60_000; // per tile; a screen shows about three tiles

export interface HitResult {
  entry: number;
  time_us: number;
  requested: number;
  reserved: number;
  tile: Tile;
  column: number;
  row: number; // kBackground: merged small allocations; -1: above everything
}

// Callbacks of the chart.
export interface TimelineCallbacks {
  // Receives the error message for a failed tile, or null when the error is over.
  onError: (message: string | null) => void;
  // Receives whether coarser tiles are drawn because the self-contained file lacks finer tiles.
  onCoarse: (isCoarse: boolean) => void;
}

const kMarkReach = 6; // pixels on both sides of a mark

export class TimelineChart {
  private readonly painter: QuadPainter;
  private store: TileStore | null = null;
  private options: TimelineOptions | null = null;
  private frame = 0;
  // The tiles of the last frame and their positions, reused while only the cursor moves.
  private pieces: LinePiece[] = [];
  private isStale = true;

  constructor(
    private readonly host: HTMLElement,
    canvas: HTMLCanvasElement,
    private readonly overlay: HTMLCanvasElement,
    private readonly callbacks: TimelineCallbacks,
  ) {
    this.painter = makePainter(canvas, () => this.redraw());
    host.dataset.painter = this.painter.kind;
  }

  show(options: TimelineOptions): void {
    if (!this.options || !hasSameRectangles(this.options, options)) {
      this.store?.release();
      const { client, document, axis, smallBy } = options;
      const tolerance = document.peak.requested / 2400;
      this.store = new TileStore(client, this.painter, {
        quadOptions: (key) => ({
          tolerance: tolerance / 4 ** key.detail,
          limit: kMaxQuads,
          smallBy,
          positions: columnPositions(document, axis, key),
        }),
        onArrival: () => this.redraw(),
        onError: this.callbacks.onError,
      });
    }
    this.isStale ||= !this.options || !showsTheSame(this.options, options);
    this.options = options;
    this.drawSoon();
  }

  // Redraws everything after tiles arrived or the size changed.
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

  scale(): HorizontalScale {
    const { axis, span } = this.options!;
    return new HorizontalScale(axis, span, this.plotWidth());
  }

  // Returns the position on the axis at a point of the element.
  positionAt(x: number): number {
    return this.scale().position(x - kMargin.left);
  }

  entryAt(x: number): number {
    return this.options!.axis.entry(this.positionAt(x));
  }

  bytesAt(y: number): number {
    const { bytes } = this.options!;
    const share = (y - kMargin.top) / this.plotHeight();
    return bytes.to + share * (bytes.from - bytes.to);
  }

  // Returns the item at a point of the element; null outside of the plot.
  hitAt(x: number, y: number): HitResult | null {
    const options = this.options;
    if (!options || !this.store || x < kMargin.left || y < kMargin.top) return null;
    const at = this.entryAt(x);
    if (at < 0 || at >= options.document.entries || x > kMargin.left + this.plotWidth())
      return null;
    for (const key of this.keys(options)) {
      const span = tileSpan(options.document, key);
      if (at < span.from || at >= span.to) continue;
      const drawn = this.store.best(key);
      if (!drawn) return null;
      const { tile } = drawn;
      const column = Math.min(columnOf(options.document, drawn.key, at), tile.entry.length - 1);
      return {
        entry: tile.entry[column],
        time_us: tile.time_us[column],
        requested: tile.requested[column],
        reserved: tile.reserved[column],
        tile,
        column,
        row: rowAt(drawn.quads, middleOf(column, drawn), this.bytesAt(y)),
      };
    }
    return null;
  }

  // Returns the text of the mark above the plot at a point; null if there is none.
  markAt(x: number, y: number): string | null {
    if (!this.options || y >= kMargin.top) return null;
    const { document } = this.options;
    const scale = this.scale();
    const marks = [
      ...document.ooms.map(({ entry }) => ({ entry, text: "out of memory" })),
      ...this.options.marks,
    ];
    const distance = (mark: { entry: number }) =>
      Math.abs(scale.mark(mark.entry) - (x - kMargin.left));
    const near = marks.filter((mark) => distance(mark) <= kMarkReach);
    if (near.length === 0) return null;
    return near.reduce((best, mark) => (distance(mark) < distance(best) ? mark : best)).text;
  }

  private keys(options: TimelineOptions): TileKey[] {
    return tilesFor(options.document, options.span, {
      by: options.by,
      level: levelFor(options.document, options.span, this.plotWidth()),
      detail: detailFor(options.document.peak.requested / (options.bytes.to - options.bytes.from)),
      index: options.number,
    });
  }

  private draw(): void {
    this.frame = 0;
    const { options, store } = this;
    if (!options || !store) return;
    const keys = this.keys(options);
    const top: TileKey = { ...keys[0], level: 0, index: 0, detail: 0 };
    store.want([top, ...keys]);
    if (this.isStale) this.pieces = this.paint(options, store, keys);
    this.isStale = false;
    drawOverlay(this.overlay, options, this.pieces, {
      width: this.host.clientWidth,
      height: this.host.clientHeight,
    });
    this.callbacks.onCoarse(keys.some((key) => store.isMissing(key)));
    this.announceFrame(store.isSettled([top, ...keys]));
  }

  private paint(options: TimelineOptions, store: TileStore, keys: TileKey[]): LinePiece[] {
    const width = this.plotWidth();
    const height = this.plotHeight();
    this.painter.start(width, height, devicePixelRatio);
    const pieces: LinePiece[] = [];
    for (const key of keys) {
      const drawn = store.best(key);
      if (!drawn) continue;
      this.color(drawn, options);
      const place = placementOf(options, key, drawn, { width, height });
      drawn.painted.draw(place);
      pieces.push({ tile: drawn.tile, positions: drawn.quads.positions, ...place });
    }
    return pieces;
  }

  private color(drawn: DrawnTile, options: TimelineOptions): void {
    if (drawn.coloredAs === options.colorOf) return;
    drawn.coloredAs = options.colorOf;
    const rows = rowCount(drawn.tile, options.smallBy);
    const ofRow = new Uint32Array(rows);
    for (let row = 0; row < rows; ++row) ofRow[row] = packColor(options.colorOf(drawn.tile, row));
    const background = packColor(options.colorOf(drawn.tile, kNone));
    const colors = new Uint32Array(drawn.quads.count);
    drawn.quads.row.forEach((row, i) => {
      colors[i] = row === kBackground ? background : ofRow[row];
    });
    drawn.painted.setColors(colors);
  }

  // Notifies tests and measurements that a frame was drawn.
  private announceFrame(settled: boolean): void {
    this.host.dataset.settled = String(settled);
    this.host.dispatchEvent(new CustomEvent("ashlar:drawn", { detail: { settled } }));
  }
}

// Returns the middle of a column, in the units of the rectangles.
function middleOf(column: number, { quads }: DrawnTile): number {
  const { positions } = quads;
  return positions ? (positions[column] + positions[column + 1]) / 2 : column + 0.5;
}

// Returns whether two options have the same rectangles, apart from zoom and colour.
function hasSameRectangles(a: TimelineOptions, b: TimelineOptions): boolean {
  return (
    a.client === b.client &&
    a.document === b.document &&
    a.axis === b.axis &&
    a.smallBy === b.smallBy
  );
}

// Returns whether two options show the same picture of rectangles. Ignores cursors, which are drawn
// on the overlay.
function showsTheSame(a: TimelineOptions, b: TimelineOptions): boolean {
  return (
    hasSameRectangles(a, b) &&
    a.by === b.by &&
    a.span.from === b.span.from &&
    a.span.to === b.span.to &&
    a.bytes.from === b.bytes.from &&
    a.bytes.to === b.bytes.to &&
    a.colorOf === b.colorOf
  );
}

// Returns the transformation from a tile to the plot, clipped to the part of the span that the tile
// covers.
function placementOf(
  options: TimelineOptions,
  key: TileKey,
  drawn: DrawnTile,
  plot: { width: number; height: number },
): Placement {
  const { document, axis, span, bytes } = options;
  const scale = new HorizontalScale(axis, span, plot.width);
  const perByte = plot.height / (bytes.to - bytes.from);
  const has = tileSpan(document, drawn.key);
  const wanted = tileSpan(document, key);
  const left = scale.x(has.from);
  return {
    scaleX: (scale.x(has.to) - left) / document.columns,
    offsetX: left,
    scaleY: -perByte,
    offsetY: plot.height + bytes.from * perByte,
    left: scale.x(wanted.from),
    right: scale.x(Math.min(wanted.to, document.entries)),
  };
}
