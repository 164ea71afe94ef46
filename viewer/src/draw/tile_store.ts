// SPDX-License-Identifier: Apache-2.0
//
// The tiles that were asked for and drawn: fetches the ones wanted now, a few at a time, keeps the
// ones used lately, and forgets the rest with what the painter holds of them.
import type { Answers, TileKey } from "../ask/answers.ts";
import type { Tile } from "../ask/scene.ts";
import { quadsOf, type Quads, type QuadWish } from "../model/tile_quads.ts";
import { standIns } from "../model/tiles.ts";
import type { PaintedQuads, QuadPainter } from "./quad_painter.ts";

export interface DrawnTile {
  key: TileKey;
  tile: Tile;
  quads: Quads;
  painted: PaintedQuads;
  coloredAs: unknown; // the colours it has, so that they are computed once
}

const kInFlight = 3; // more would only keep newer wishes waiting
const kKept = 24;
const kRetry = 1000; // milliseconds until a tile that failed is asked for again; then twice as long
const kLongestRetry = 60_000;

export interface TileHooks {
  wish: (key: TileKey) => QuadWish;
  arrived: () => void; // something has come, or is worth asking for again
  trouble: (says: string | null) => void; // why one did not come; null: they come again
}

export class TileStore {
  private readonly kept = new Map<string, DrawnTile>();
  private readonly missing = new Set<string>(); // of a file: asked for, and there is none
  private readonly failed = new Set<string>(); // of a server: to be asked for again later
  private readonly inFlight = new Set<string>();
  private queue: TileKey[] = [];
  private isReleased = false;
  private retry = kRetry;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly answers: Answers,
    private readonly painter: QuadPainter,
    private readonly hooks: TileHooks,
  ) {}

  // Replaces what was wanted before: nobody waits for tiles that have left the screen.
  want(keys: TileKey[]): void {
    this.queue = keys.filter((key) => this.isUnknown(nameOf(key)));
    this.fetchNext();
  }

  // The tile itself, or what can stand in for it. The one drawn is used, and so kept.
  best(key: TileKey): DrawnTile | null {
    const exact = this.use(key);
    if (exact) return exact;
    for (const other of standIns(key)) {
      const found = this.use(other);
      if (found) return found;
    }
    return null;
  }

  // Whether there is no such tile, and something coarser stands in for good.
  lacks(key: TileKey): boolean {
    return this.missing.has(nameOf(key));
  }

  // Whether nothing more can be expected for these.
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
    while (this.inFlight.size < kInFlight && this.queue.length > 0)
      void this.fetch(this.queue.shift()!);
  }

  private async fetch(key: TileKey): Promise<void> {
    const name = nameOf(key);
    this.inFlight.add(name);
    try {
      const tile = await this.answers.tile(key);
      if (this.isReleased) return;
      this.keep(name, key, tile);
      this.retry = kRetry;
      this.hooks.trouble(null);
    } catch (problem) {
      if (this.isReleased) return;
      // A self-contained file has the upper levels only.
      if (this.answers.source.kind === "file") this.missing.add(name);
      else this.askAgain(name, problem);
    }
    this.inFlight.delete(name);
    this.fetchNext();
    this.hooks.arrived();
  }

  private askAgain(name: string, problem: unknown): void {
    this.failed.add(name);
    this.hooks.trouble(problem instanceof Error ? problem.message : String(problem));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.retry = Math.min(kLongestRetry, 2 * this.retry);
      this.failed.clear();
      this.hooks.arrived();
    }, this.retry);
  }

  private keep(name: string, key: TileKey, tile: Tile): void {
    const quads = quadsOf(tile, this.hooks.wish(key));
    const painted = this.painter.add(quads);
    this.kept.set(name, { key, tile, quads, painted, coloredAs: null });
    for (const [oldest, drawn] of this.kept) {
      if (this.kept.size <= kKept) break;
      if (drawn.key.level === 0) continue; // The one that can stand in for all others.
      drawn.painted.release();
      this.kept.delete(oldest);
    }
  }
}

function nameOf(key: TileKey): string {
  return `${key.document}/${key.by}/${key.level}/${key.index}/${key.detail}`;
}
