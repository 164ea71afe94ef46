// Lays segments out as words on a page: left to right, broken at the right edge, so that area is
// bytes and everything fits however large single segments are. Pools are paragraphs.
import { type AddressMap, SegmentKind } from "../ask/scene.ts";
import type { Quads } from "./tile_quads.ts";

export interface MapLayout {
  quads: Quads; // in pixels, downwards; the row of a quad is its block
  segmentOf: Uint32Array; // by quad
  pieces: SegmentPiece[]; // outlines: a segment is one piece in each line that it has a part of
  headings: { pool: number; y: number; bytes: number; segments: number; views: number }[];
  height: number;
}

export interface SegmentPiece {
  segment: number;
  left: number;
  right: number;
  y: number;
}

export interface MapPage {
  width: number;
  bytesPerPixel: number;
}

export const kLine = 18; // pixels, of which the gap is not drawn on
export const kLineGap = 5;
const kWordGap = 3;
const kHeading = 26;

// How many bytes a pixel must stand for so that the map is about as high as the page.
export function fittingBytesPerPixel(map: AddressMap, width: number, height: number): number {
  const total = map.segment_bytes.reduce((sum, bytes) => sum + bytes, 0);
  const pools = new Set(map.segment_pool).size;
  const lines = Math.max(1, Math.floor((height - pools * kHeading) / (kLine + kLineGap)) - pools);
  // Gaps between segments take room, too.
  const pixels = Math.max(width / 4, lines * width - map.segment_bytes.length * (kWordGap + 2));
  return Math.max(1, total / pixels);
}

export function layOutMap(map: AddressMap, page: MapPage): MapLayout {
  const writer = new LineWriter(page);
  const layout: MapLayout["headings"] = [];
  for (const [pool, segments] of segmentsByPool(map)) {
    const bytes = segments.reduce((sum, segment) => sum + map.segment_bytes[segment], 0);
    const views = segments.filter(
      (segment) => map.segment_kind[segment] === SegmentKind.view,
    ).length;
    layout.push({
      pool,
      y: writer.startParagraph(),
      bytes,
      segments: segments.length - views,
      views,
    });
    for (const segment of segments) {
      writer.startWord();
      const last = map.segment_first[segment + 1];
      for (let block = map.segment_first[segment]; block < last; ++block) {
        writer.write(map.block_bytes[block], { segment, block });
      }
      writer.endWord(segment);
    }
  }
  return { ...writer.take(), headings: layout };
}

export function quadAt(layout: MapLayout, x: number, y: number): number {
  const box = layout.quads.box;
  for (let i = 0; i < layout.quads.count; ++i) {
    if (x >= box[4 * i] && x < box[4 * i + 1] && y >= box[4 * i + 2] && y < box[4 * i + 3])
      return i;
  }
  return -1;
}

function segmentsByPool(map: AddressMap): [number, number[]][] {
  const pools = new Map<number, number[]>();
  map.segment_pool.forEach((pool, segment) => {
    const segments = pools.get(pool);
    if (segments) segments.push(segment);
    else pools.set(pool, [segment]);
  });
  return [...pools].sort((a, b) => a[0] - b[0]);
}

class LineWriter {
  private readonly box: number[] = [];
  private readonly row: number[] = [];
  private readonly segmentOf: number[] = [];
  private readonly pieces: SegmentPiece[] = [];
  private x = 0;
  private y = 0;
  private pieceLeft = 0;

  constructor(private readonly page: MapPage) {}

  startParagraph(): number {
    if (this.x > 0) this.breakLine();
    const y = this.y;
    this.y += kHeading;
    return y;
  }

  startWord(): void {
    if (this.x > 0) this.x += kWordGap;
    if (this.x >= this.page.width - 2) this.breakLine();
    this.pieceLeft = this.x;
  }

  write(bytes: number, of: { segment: number; block: number }): void {
    let left = bytes / this.page.bytesPerPixel;
    while (left > 0) {
      if (this.x >= this.page.width - 0.01) this.breakWord(of.segment);
      const part = Math.min(left, this.page.width - this.x);
      this.box.push(this.x, this.x + part, this.y, this.y + kLine);
      this.row.push(of.block);
      this.segmentOf.push(of.segment);
      this.x += part;
      left -= part;
      if (left < 0.01) break;
    }
  }

  // However small, a segment can be seen and pointed at.
  endWord(segment: number): void {
    this.x = Math.max(this.x, this.pieceLeft + 2);
    this.endPiece(segment);
  }

  take(): Omit<MapLayout, "headings"> {
    return {
      quads: {
        count: this.row.length,
        box: Float32Array.from(this.box),
        row: Uint32Array.from(this.row),
      },
      segmentOf: Uint32Array.from(this.segmentOf),
      pieces: this.pieces,
      height: this.y + kLine,
    };
  }

  private breakWord(segment: number): void {
    this.endPiece(segment);
    this.breakLine();
    this.pieceLeft = 0;
  }

  private endPiece(segment: number): void {
    if (this.x > this.pieceLeft) {
      this.pieces.push({ segment, left: this.pieceLeft, right: this.x, y: this.y });
    }
  }

  private breakLine(): void {
    this.x = 0;
    this.y += kLine + kLineGap;
  }
}
