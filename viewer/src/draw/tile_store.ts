// SPDX-License-Identifier: Apache-2.0
//
// Cache of tiles: fetches the wanted tiles, a few at a time, keeps the most recently used tiles,
// and evicts older tiles together with the painter's data.
import type { ViewClient, TileKey } from "../api/client.ts";
import type { Tile } from "../api/scene.ts";
import { quadsOf, type QuadOptions, type TileQuads } from "../model/tile_quads.ts";
import { fallbackTiles } from "../model/tiles.ts";
import type { PaintedQuads, QuadPainter } from "./quad_painter.ts";

export interface DrawnTile {
  key: TileKey;
  tile: Tile;
  quads: TileQuads;
  painted: PaintedQuads;
  coloredAs: unknown; // the colouring with which the tile was drawn
}

const kMaxInFlight = 3; // more requests in flight would delay newer requests
const kMaxKept = 24;
const kRetryDelay = 1000; // milliseconds before the first retry after a failure; then doubled
const kMaxRetryDelay = 60_000;

export interface TileHooks {
  quadOptions: (key: TileKey) => QuadOptions;
  onArrival: () => void; // a tile arrived, or should be retried
  onError: (message: string | null) => void; // null: the error is over
}

export class TileStore {
  private readonly kept = new Map<string, DrawnTile>();
  private readonly missing = new Set<string>(); // tiles that the self-contained file lacks
  private readonly failed = new Set<string>(); // tiles that failed and are retried later
  private readonly inFlight = new Set<string>();
  private queue: TileKey[] = [];
  private isReleased = false;
  private retry = kRetryDelay;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly client: ViewClient,
    private readonly painter: QuadPainter,
    private readonly hooks: TileHooks,
  ) {}

  // Sets the tiles to fetch. Cancels queued requests, whose tiles may have left the screen.
  want(keys: TileKey[]): void {
    this.queue = keys.filter((key) => this.isUnknown(nameOf(key)));
    this.fetchNext();
  }

  // Returns the tile or its best fallback, and marks it as recently used.
  best(key: TileKey): DrawnTile | null {
    const exact = this.use(key);
    if (exact) return exact;
    for (const other of fallbackTiles(key)) {
      const found = this.use(other);
      if (found) return found;
    }
    return null;
  }

  // Returns whether the self-contained file lacks the tile, so that a coarser tile remains in its
  // place.
  isMissing(key: TileKey): boolean {
    return this.missing.has(nameOf(key));
  }

  // Returns whether each of the tiles is loaded or known to be missing.
  isSettled(keys: TileKey[]): boolean {
    return keys.every((key) => this.kept.has(nameOf(key)) || this.missing.has(nameOf(key)));
  }

  release(): void {
    for (const drawn of this.kept.values()) drawn.painted.release();
    this.kept.clear();
    this.queue = [];
    clearTimeout(this.timer);
    this.isReleased = true;
  }

  private isUnknown(name: string): boolean {
    return ![this.kept, this.missing, this.failed, this.inFlight].some((all) => all.has(name));
  }

  private use(key: TileKey): DrawnTile | null {
    const name = nameOf(key);
    const drawn = this.kept.get(name);
    if (!drawn) return null;
    this.kept.delete(name);
    this.kept.set(name, drawn);
    return drawn;
  }

  private fetchNext(): void {
    while (this.inFlight.size < kMaxInFlight && this.queue.length > 0)
      void this.fetch(this.queue.shift()!);
  }

  private async fetch(key: TileKey): Promise<void> {
    const name = nameOf(key);
    this.inFlight.add(name);
    try {
      const tile = await this.client.tile(key);
      if (this.isReleased) return;
      this.keep(name, key, tile);
      this.retry = kRetryDelay;
      this.hooks.onError(null);
    } catch (problem) {
      if (this.isReleased) return;
      // A retry is useless if the source is a self-contained file, which has only the upper levels.
      if (this.client.source.kind === "file") this.missing.add(name);
      else this.retryLater(name, problem);
    }
    this.inFlight.delete(name);
    this.fetchNext();
    this.hooks.onArrival();
  }

  private retryLater(name: string, problem: unknown): void {
    this.failed.add(name);
    this.hooks.onError(problem instanceof Error ? problem.message : String(problem));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.retry = Math.min(kMaxRetryDelay, 2 * this.retry);
      this.failed.clear();
      this.hooks.onArrival();
    }, this.retry);
  }

  private keep(name: string, key: TileKey, tile: Tile): void {
    const quads = quadsOf(tile, this.hooks.quadOptions(key));
    const painted = this.painter.add(quads);
    this.kept.set(name, { key, tile, quads, painted, coloredAs: null });
    for (const [oldest, drawn] of this.kept) {
      if (this.kept.size <= kMaxKept) break;
      if (drawn.key.level === 0) continue; // kept as the fallback of all other tiles
      drawn.painted.release();
      this.kept.delete(oldest);
    }
  }
}

function nameOf(key: TileKey): string {
  return `${key.document}/${key.by}/${key.level}/${key.index}/${key.detail}`;
}
