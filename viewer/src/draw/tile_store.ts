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

export class TileStore {
  private readonly kept = new Map<string, DrawnTile>();
  private readonly missing = new Set<string>(); // asked for, and there is none
  private readonly inFlight = new Set<string>();
  private queue: TileKey[] = [];

  constructor(
    private readonly answers: Answers,
    private readonly painter: QuadPainter,
    private readonly wish: (key: TileKey) => QuadWish,
    private readonly arrived: () => void,
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

  // Whether nothing more can be expected for these.
  isSettled(keys: TileKey[]): boolean {
    return keys.every((key) => this.kept.has(nameOf(key)) || this.missing.has(nameOf(key)));
  }

  release(): void {
    for (const drawn of this.kept.values()) drawn.painted.release();
    this.kept.clear();
    this.queue = [];
  }

  private isUnknown(name: string): boolean {
    return !this.kept.has(name) && !this.missing.has(name) && !this.inFlight.has(name);
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
      this.keep(name, key, await this.answers.tile(key));
    } catch {
      this.missing.add(name); // A self-contained file has the upper levels only.
    }
    this.inFlight.delete(name);
    this.fetchNext();
    this.arrived();
  }

  private keep(name: string, key: TileKey, tile: Tile): void {
    const quads = quadsOf(tile, this.wish(key));
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
