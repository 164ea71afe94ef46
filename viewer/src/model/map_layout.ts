// SPDX-License-Identifier: Apache-2.0
//
// Lays out segments like words on a page: left to right, wrapped at the right edge, so that area is
// proportional to bytes. Each pool is a paragraph; its idle extents, which belong to no segment,
// form another paragraph.
import { type AddressMap, BlockState, SegmentKind } from "../api/scene.ts";
import { idleExtents } from "./extents.ts";
import type { Quads } from "./tile_quads.ts";

export interface MapLayout {
  quads: Quads; // in pixels, y downwards; the row of a quad is its block
  segmentOf: Uint32Array; // the segment of each quad, in the same order
  pieces: SegmentPiece[]; // outlines of segments; a segment has one piece per line
  headings: MapHeading[];
  origins: MapOrigin[]; // the start of each segment of the map, in the same order
  mappedRanges: MapBox[]; // boxes of mapped ranges
  idle: MapBox[]; // boxes of idle extents
  height: number;
}

export interface MapHeading {
  pool: number;
  y: number;
  bytes: number;
  segments: number;
  views: number;
  idle: number; // number of idle extents
}

export interface MapOrigin {
  x: number;
  y: number;
}

// The part of an item on one line.
export interface MapBox {
  index: number; // index of the mapped range or of the idle extent
  left: number;
  right: number;
  y: number;
}

export interface SegmentPiece {
  segment: number;
  left: number;
  right: number;
  y: number;
}

export interface MapScale {
  width: number;
  bytesPerPixel: number;
}

export const kLineHeight = 18; // pixels, without the gap
export const kLineGap = 5;
const kWordGap = 3;
const kHeadingHeight = 26;

// Returns the bytes per pixel for which the map is about as high as the page.
export function fittingBytesPerPixel(map: AddressMap, width: number, height: number): number {
  const idle = idleExtents(map);
  const total =
    map.segment_bytes.reduce((sum, bytes) => sum + bytes, 0) +
    idle.reduce((sum, extent) => sum + map.extent_bytes[extent], 0);
  const words = map.segment_bytes.length + idle.length;
  const pools =
    new Set(map.segment_pool).size + new Set(idle.map((extent) => map.extent_pool[extent])).size;
  const lines = Math.max(
    1,
    Math.floor((height - pools * kHeadingHeight) / (kLineHeight + kLineGap)) - pools,
  );
  // The estimate allows for the gaps between segments.
  const pixels = Math.max(width / 4, lines * width - words * (kWordGap + 2));
  return Math.max(1, total / pixels);
}

// Returns the mapped bytes of a segment, without the unmapped parts of its address range.
function memoryIn(map: AddressMap, segment: number): number {
  let bytes = 0;
  for (let i = map.segment_first[segment]; i < map.segment_first[segment + 1]; ++i) {
    if (map.block_state[i] !== BlockState.unmapped) bytes += map.block_bytes[i];
  }
  return bytes;
}

export function layOutMap(map: AddressMap, scale: MapScale): MapLayout {
  const writer = new LineWriter(scale);
  const headings: MapHeading[] = [];
  const origins: MapOrigin[] = [];
  for (const [pool, segments] of byPool([...map.segment_pool.keys()], map.segment_pool)) {
    const bytes = segments.reduce((sum, segment) => sum + memoryIn(map, segment), 0);
    const views = segments.filter(
      (segment) => map.segment_kind[segment] === SegmentKind.view,
    ).length;
    headings.push({
      pool,
      y: writer.startParagraph(),
      bytes,
      segments: segments.length - views,
      views,
      idle: 0,
    });
    for (const segment of segments) {
      origins[segment] = writer.startWord();
      const last = map.segment_first[segment + 1];
      for (let block = map.segment_first[segment]; block < last; ++block) {
        writer.write(map.block_bytes[block], { segment, block });
      }
      writer.endWord(segment);
    }
  }
  for (const [pool, extents] of byPool(idleExtents(map), map.extent_pool)) {
    const bytes = extents.reduce((sum, extent) => sum + map.extent_bytes[extent], 0);
    const y = writer.startParagraph();
    headings.push({ pool, y, bytes, segments: 0, views: 0, idle: extents.length });
    for (const extent of extents) writer.writeIdle(map.extent_bytes[extent], extent);
  }
  return {
    ...writer.take(),
    headings,
    origins,
    mappedRanges: mappedRangeBoxes(map, scale, origins),
  };
}

// Returns the offset in the segment of a point on the page.
export function offsetAt(scale: MapScale, origin: MapOrigin, x: number, y: number): number {
  const line = Math.floor((y - origin.y) / (kLineHeight + kLineGap));
  return (line * scale.width + x - origin.x) * scale.bytesPerPixel;
}

export function boxAt(boxes: MapBox[], x: number, y: number): MapBox | undefined {
  return boxes.find(
    (box) => x >= box.left && x < box.right && y >= box.y && y < box.y + kLineHeight,
  );
}

// Places mapped ranges on their segments. `origins` are the positions of the segments.
function mappedRangeBoxes(map: AddressMap, scale: MapScale, origins: MapOrigin[]): MapBox[] {
  const boxes: MapBox[] = [];
  origins.forEach((origin, segment) => {
    const end = map.range_first[segment + 1];
    for (let range = map.range_first[segment]; range < end; ++range) {
      let from = origin.x + map.range_offset[range] / scale.bytesPerPixel;
      const to = from + map.range_bytes[range] / scale.bytesPerPixel;
      while (to - from > 0.01) {
        const line = Math.floor((from + 0.01) / scale.width);
        const lineEnd = Math.min(to, (line + 1) * scale.width);
        const y = origin.y + line * (kLineHeight + kLineGap);
        boxes.push({
          index: range,
          left: from - line * scale.width,
          right: lineEnd - line * scale.width,
          y,
        });
        from = lineEnd;
      }
    }
  });
  return boxes;
}

export function quadAt(layout: MapLayout, x: number, y: number): number {
  const box = layout.quads.box;
  for (let i = 0; i < layout.quads.count; ++i) {
    if (x >= box[4 * i] && x < box[4 * i + 1] && y >= box[4 * i + 2] && y < box[4 * i + 3])
      return i;
  }
  return -1;
}

function byPool(all: number[], poolOf: Uint32Array): [number, number[]][] {
  const pools = new Map<number, number[]>();
  for (const each of all) {
    const members = pools.get(poolOf[each]);
    if (members) members.push(each);
    else pools.set(poolOf[each], [each]);
  }
  return [...pools].sort((a, b) => a[0] - b[0]);
}

class LineWriter {
  private readonly box: number[] = [];
  private readonly row: number[] = [];
  private readonly segmentOf: number[] = [];
  private readonly pieces: SegmentPiece[] = [];
  private readonly idle: MapBox[] = [];
  private x = 0;
  private y = 0;
  private pieceLeft = 0;

  constructor(private readonly scale: MapScale) {}

  startParagraph(): number {
    if (this.x > 0) this.breakLine();
    const y = this.y;
    this.y += kHeadingHeight;
    return y;
  }

  startWord(): MapOrigin {
    if (this.x > 0) this.x += kWordGap;
    if (this.x >= this.scale.width - 2) this.breakLine();
    this.pieceLeft = this.x;
    return { x: this.x, y: this.y };
  }

  write(bytes: number, source: { segment: number; block: number }): void {
    let left = bytes / this.scale.bytesPerPixel;
    while (left > 0) {
      if (this.x >= this.scale.width - 0.01) this.breakWord(source.segment);
      const part = Math.min(left, this.scale.width - this.x);
      this.box.push(this.x, this.x + part, this.y, this.y + kLineHeight);
      this.row.push(source.block);
      this.segmentOf.push(source.segment);
      this.x += part;
      left -= part;
      if (left < 0.01) break;
    }
  }

  writeIdle(bytes: number, extent: number): void {
    this.startWord();
    let left = Math.max(2, bytes / this.scale.bytesPerPixel);
    while (left > 0.01) {
      if (this.x >= this.scale.width - 0.01) this.breakLine();
      const right = this.x + Math.min(left, this.scale.width - this.x);
      this.idle.push({ index: extent, left: this.x, right, y: this.y });
      left -= right - this.x;
      this.x = right;
    }
  }

  // Ends a segment. Every segment has a minimum size to be visible and clickable.
  endWord(segment: number): void {
    this.x = Math.max(this.x, this.pieceLeft + 2);
    this.endPiece(segment);
  }

  take(): Pick<MapLayout, "quads" | "segmentOf" | "pieces" | "idle" | "height"> {
    return {
      quads: {
        count: this.row.length,
        box: Float32Array.from(this.box),
        row: Uint32Array.from(this.row),
      },
      segmentOf: Uint32Array.from(this.segmentOf),
      pieces: this.pieces,
      idle: this.idle,
      height: this.y + kLineHeight,
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
    this.y += kLineHeight + kLineGap;
  }
}
