// SPDX-License-Identifier: Apache-2.0
//
// The usage of a segment, and a one-sentence summary of what pins it.
import { type AddressMap, BlockState, SegmentKind } from "../api/scene.ts";
import { capitalize, formatBytes, formatShare, plural } from "./format.ts";

export interface SegmentUse {
  bytes: number;
  requested: number; // requested bytes in live and merged blocks
  live: number; // bytes in live blocks, plus requested bytes in merged blocks
  pending: number; // bytes of pending frees
  unmapped: number;
  liveBlocks: number[]; // live blocks, largest first
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

export function segmentNoun(kind: number): string {
  if (kind === SegmentKind.view) return "view";
  return kind === SegmentKind.expandable ? "expandable segment" : "segment";
}

// Summarizes the usage in one sentence. `holder` describes the origin of the largest block; empty
// if unknown.
export function segmentSummary(use: SegmentUse, kind: number, holder: string): string {
  const mapped = use.bytes - use.unmapped;
  const what = segmentNoun(kind);
  const size = formatBytes(mapped);
  if (use.live === 0 && use.pending === 0) {
    return mapped === 0
      ? `This ${what} has no memory mapped.`
      : `No live blocks in this ${what}: its ${size} are cached and could be released.`;
  }
  if (use.live === 0) {
    return (
      `All of this ${what} has been freed, but ${plural(use.pendingBlocks, "block")} ` +
      `(${formatBytes(use.pending)}) must wait for another stream before reuse.`
    );
  }
  const blocks =
    use.mergedBlocks > 0 ? "small blocks" : plural(use.liveBlocks.length, "live block");
  const free = mapped - use.live - use.pending;
  const one = use.liveBlocks.length === 1 && use.mergedBlocks === 0;
  const consequence =
    free < mapped / 100
      ? `almost nothing else in it is free`
      : kind !== SegmentKind.plain
        ? `only the memory around ${one ? "it" : "them"} can be released`
        : `the ${formatBytes(free)} around ${one ? "it" : "them"} cannot be released`;
  return (
    `${capitalize(blocks)} of ${formatBytes(use.live)} ` +
    `(${formatShare(use.live, mapped)} of ${size}) ` +
    `${one ? "pins" : "pin"} this ${what}: ` +
    `${consequence}.${holder ? ` ${holder}` : ""}`
  );
}
