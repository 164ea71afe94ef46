// SPDX-License-Identifier: Apache-2.0
//
// Why a segment is still there: what lives in it, in one sentence.
import { type AddressMap, BlockState, SegmentKind } from "../ask/scene.ts";
import { capital, formatBytes, formatShare, plural } from "./format.ts";

export interface SegmentUse {
  bytes: number;
  requested: number; // by owners of live blocks
  live: number; // bytes in blocks that live
  pending: number; // bytes freed, but waiting for a stream
  unmapped: number;
  liveBlocks: number[]; // the greatest first
  pendingBlocks: number;
  mergedBlocks: number;
}

export function segmentUse(map: AddressMap, segment: number): SegmentUse {
  const use: SegmentUse = {
    bytes: map.segment_bytes[segment],
    requested: 0,
    live: 0,
    pending: 0,
    unmapped: 0,
    liveBlocks: [],
    pendingBlocks: 0,
    mergedBlocks: 0,
  };
  for (let block = map.segment_first[segment]; block < map.segment_first[segment + 1]; ++block) {
    const bytes = map.block_bytes[block];
    const state = map.block_state[block];
    if (state === BlockState.unmapped) use.unmapped += bytes;
    if (state === BlockState.pending) {
      use.pending += bytes;
      use.pendingBlocks += 1;
    }
    if (state === BlockState.merged) use.mergedBlocks += 1;
    if (state === BlockState.live || state === BlockState.merged) {
      use.requested += map.block_requested[block];
      use.live += state === BlockState.live ? bytes : map.block_requested[block];
    }
    if (state === BlockState.live) use.liveBlocks.push(block);
  }
  use.liveBlocks.sort((a, b) => map.block_bytes[b] - map.block_bytes[a]);
  return use;
}

export function segmentWord(kind: number): string {
  if (kind === SegmentKind.view) return "view";
  return kind === SegmentKind.expandable ? "expandable segment" : "segment";
}

// `holder` says of the greatest block who made it and when, where that is known.
export function pinnedSentence(use: SegmentUse, kind: number, holder: string): string {
  const mapped = use.bytes - use.unmapped;
  const what = segmentWord(kind);
  const size = formatBytes(mapped);
  if (use.live === 0 && use.pending === 0) {
    return mapped === 0
      ? `This ${what} has no memory behind it at the moment.`
      : `Nothing lives in this ${what}: its ${size} are kept for later, and could be given back.`;
  }
  if (use.live === 0) {
    return (
      `All of this ${what} has been freed, but ${plural(use.pendingBlocks, "block")} ` +
      `(${formatBytes(use.pending)}) must wait for another stream before the memory is used again.`
    );
  }
  const blocks =
    use.mergedBlocks > 0 ? "small blocks" : plural(use.liveBlocks.length, "live block");
  const free = mapped - use.live - use.pending;
  const one = use.liveBlocks.length === 1 && use.mergedBlocks === 0;
  const consequence =
    free < mapped / 100
      ? `nearly nothing beside ${one ? "it" : "them"} is free`
      : kind !== SegmentKind.plain
        ? `only memory beside ${one ? "it" : "them"} can be given back`
        : `the ${formatBytes(free)} beside ${one ? "it" : "them"} cannot be given back`;
  return (
    `${capital(blocks)} of ${formatBytes(use.live)} ` +
    `(${formatShare(use.live, mapped)} of ${size}) ` +
    `${one ? "holds" : "hold"} this ${what}: ` +
    `${consequence}.${holder ? ` ${holder}` : ""}`
  );
}
