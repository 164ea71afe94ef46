// SPDX-License-Identifier: Apache-2.0
//
// Address maps for tests.
import { type AddressMap, BlockState, kNoCategory, kNone } from "../src/api/scene.ts";

export interface Block {
  bytes: number;
  state: number;
  requested?: number;
}

export interface Extent {
  bytes: number;
  home?: bigint; // undefined: idle
  mappings: bigint[];
}

// Returns an address map. Segments start at multiples of 2^30, beginning with 0.
export function mapOf(
  segments: { pool: number; blocks: Block[] }[],
  extents: Extent[] = [],
): AddressMap {
  const blocks = segments.flatMap((segment) => segment.blocks);
  const first = [0];
  for (const segment of segments) first.push(first[first.length - 1] + segment.blocks.length);
  const bytes = segments.map((segment) =>
    segment.blocks.reduce((sum, block) => sum + block.bytes, 0),
  );
  return {
    at: 100,
    segment_address: BigUint64Array.from(segments, (_, i) => BigInt(i) * 2n ** 30n),
    segment_bytes: Float64Array.from(bytes),
    segment_stream: Uint32Array.from(segments, () => 0),
    segment_pool: Uint32Array.from(segments, (segment) => segment.pool),
    segment_kind: Uint8Array.from(segments, () => 0),
    segment_first: Uint32Array.from(first),
    block_offset: Float64Array.from(segments.flatMap((segment) => offsetsOf(segment.blocks))),
    block_bytes: Float64Array.from(blocks, (block) => block.bytes),
    block_state: Uint8Array.from(blocks, (block) => block.state),
    block_requested: Float64Array.from(blocks, (block) => block.requested ?? 0),
    block_allocation: Uint32Array.from(blocks, () => kNone),
    block_stack: Uint32Array.from(blocks, () => kNone),
    block_made: Uint32Array.from(blocks, () => kNone),
    block_category: Uint8Array.from(blocks, () => kNoCategory),
    ...extentColumns(extents, bytes),
  };
}

export const live = (bytes: number): Block => ({ bytes, state: BlockState.live, requested: bytes });
export const free = (bytes: number): Block => ({ bytes, state: BlockState.free });

function offsetsOf(blocks: Block[]): number[] {
  let offset = 0;
  return blocks.map((block) => (offset += block.bytes) - block.bytes);
}

function extentColumns(extents: Extent[], segmentBytes: number[]) {
  const mappings = extents.flatMap((extent) => extent.mappings);
  const mappingFirst = [0];
  for (const extent of extents) mappingFirst.push(mappingFirst.at(-1)! + extent.mappings.length);
  const rangeFirst = [0];
  const mappedRanges: { offset: number; extent: number; isHome: boolean }[] = [];
  segmentBytes.forEach((bytes, segment) => {
    const begin = BigInt(segment) * 2n ** 30n;
    const here = extents.flatMap((extent, number) =>
      extent.mappings
        .filter((address) => address >= begin && address < begin + BigInt(bytes))
        .map((address) => ({
          offset: Number(address - begin),
          extent: number,
          isHome: address === extent.home,
        })),
    );
    mappedRanges.push(...here.sort((a, b) => a.offset - b.offset));
    rangeFirst.push(mappedRanges.length);
  });
  return {
    extent_id: BigUint64Array.from(extents, (_, i) => BigInt(i) + 10n),
    extent_bytes: Float64Array.from(extents, (extent) => extent.bytes),
    extent_stream: Uint32Array.from(extents, () => 0),
    extent_pool: Uint32Array.from(extents, () => 0),
    extent_is_large: Uint8Array.from(extents, () => 1),
    extent_has_home: Uint8Array.from(extents, (extent) => (extent.home === undefined ? 0 : 1)),
    extent_home: BigUint64Array.from(extents, (extent) => extent.home ?? 0n),
    mapping_first: Uint32Array.from(mappingFirst),
    mapping_address: BigUint64Array.from(mappings),
    range_first: Uint32Array.from(rangeFirst),
    range_offset: Float64Array.from(mappedRanges, (mappedRange) => mappedRange.offset),
    range_bytes: Float64Array.from(
      mappedRanges,
      (mappedRange) => extents[mappedRange.extent].bytes,
    ),
    range_extent: Uint32Array.from(mappedRanges, (mappedRange) => mappedRange.extent),
    range_is_home: Uint8Array.from(mappedRanges, (mappedRange) => (mappedRange.isHome ? 1 : 0)),
  };
}
