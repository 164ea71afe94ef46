// SPDX-License-Identifier: Apache-2.0
//
// Extents: the extent mapped at an address, its other mappings, and the blocks that occupy it. The
// home of an extent is the mapping at which the extent is in use.
import { type AddressMap, BlockState, kNone } from "../api/scene.ts";
import { capitalize, formatBytes, plural } from "./format.ts";

export interface ExtentUse {
  bytes: number;
  live: number; // bytes in live blocks
  pending: number; // bytes of pending frees
  liveBlocks: number[]; // sorted by their bytes in the extent, largest first
  pendingBlocks: number;
  mergedBlocks: number;
}

export function hasExtents(map: AddressMap): boolean {
  return map.extent_bytes.length > 0;
}

export function idleExtents(map: AddressMap): number[] {
  return [...map.extent_has_home.keys()].filter((extent) => map.extent_has_home[extent] === 0);
}

// Returns the mapped range that contains the offset in the segment; kNone if there is none.
export function mappedRangeAt(map: AddressMap, segment: number, offset: number): number {
  let [low, high] = [map.range_first[segment], map.range_first[segment + 1]];
  const end = high;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (map.range_offset[middle] + map.range_bytes[middle] <= offset) low = middle + 1;
    else high = middle;
  }
  return low < end && map.range_offset[low] <= offset ? low : kNone;
}

// Returns the addresses of the extent's mappings, except its home address.
export function otherMappings(map: AddressMap, extent: number): BigUint64Array {
  const all = map.mapping_address.subarray(
    map.mapping_first[extent],
    map.mapping_first[extent + 1],
  );
  const hasHome = map.extent_has_home[extent] !== 0;
  return all.filter((address) => !hasHome || address !== map.extent_home[extent]);
}

// Returns the use of an extent by the blocks at its home address. An idle extent has no home, so
// its use is zero.
export function extentUse(map: AddressMap, extent: number): ExtentUse {
  const use: ExtentUse = {
    bytes: map.extent_bytes[extent],
    live: 0,
    pending: 0,
    liveBlocks: [],
    pendingBlocks: 0,
    mergedBlocks: 0,
  };
  const segment = map.extent_has_home[extent] ? segmentAt(map, map.extent_home[extent]) : kNone;
  if (segment === kNone) return use;
  const begin = Number(map.extent_home[extent] - map.segment_address[segment]);
  const parts = new Map<number, number>(); // bytes of the extent in each live block
  for (let block = map.segment_first[segment]; block < map.segment_first[segment + 1]; ++block) {
    const from = Math.max(begin, map.block_offset[block]);
    const to = Math.min(begin + use.bytes, map.block_offset[block] + map.block_bytes[block]);
    if (from >= to) continue;
    const state = map.block_state[block];
    if (state === BlockState.merged) use.mergedBlocks += 1;
    if (state === BlockState.pending) {
      use.pending += to - from;
      use.pendingBlocks += 1;
    }
    if (state !== BlockState.live) continue;
    use.live += to - from;
    use.liveBlocks.push(block);
    parts.set(block, to - from);
  }
  use.liveBlocks.sort((a, b) => parts.get(b)! - parts.get(a)!);
  return use;
}

export function extentSummary(map: AddressMap, extent: number, use: ExtentUse): string {
  if (map.extent_has_home[extent] === 0) {
    return "It is idle: not in use by any view, and available for the next allocation.";
  }
  if (use.mergedBlocks > 0) return "It contains small blocks: zoom in to see them individually.";
  if (use.live === 0 && use.pending === 0) {
    return "No live blocks: it can serve another view or be released.";
  }
  if (use.live === 0) {
    return (
      `All of it has been freed, but ${plural(use.pendingBlocks, "block")} ` +
      `(${formatBytes(use.pending)} of it) must wait for another stream.`
    );
  }
  const one = use.liveBlocks.length === 1;
  const free = use.bytes - use.live - use.pending;
  const rest =
    free <= 0
      ? "nothing of it is free"
      : `the ${formatBytes(free)} around ${one ? "it" : "them"} can serve only this view`;
  return (
    `${capitalize(plural(use.liveBlocks.length, "live block"))} ` +
    `${one ? "occupies" : "occupy"} ${formatBytes(use.live)} of it: ${rest}.`
  );
}

function segmentAt(map: AddressMap, address: bigint): number {
  let [low, high] = [0, map.segment_bytes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const end = map.segment_address[middle] + BigInt(map.segment_bytes[middle]);
    if (end <= address) low = middle + 1;
    else high = middle;
  }
  const isInside = low < map.segment_bytes.length && map.segment_address[low] <= address;
  return isInside ? low : kNone;
}
