// SPDX-License-Identifier: Apache-2.0
//
// Details of a segment or block: the tooltip, and what pins the chosen segment.
import type { ComponentChildren } from "preact";
import { type AddressMap, BlockState, kNone, SegmentKind } from "../api/scene.ts";
import type { MapPlace } from "../draw/map_chart.ts";
import { ageText } from "../model/age.ts";
import { capitalize, formatAddress, formatBytes, formatShare } from "../model/format.ts";
import { stackTitle } from "../model/frames.ts";
import { segmentSummary, segmentUse, segmentNoun } from "../model/segment_use.ts";
import { shown, stacks, stacksRecorded } from "../session.ts";
import { ExtentValues } from "./extent_details.tsx";
import { OccupyingBlocks } from "./occupying_blocks.tsx";
import { besidePointer } from "./use_chart.ts";

const kStates = ["free", "live", "pending free", "not mapped", "small blocks, merged"];

interface Props {
  map: AddressMap | null;
  segment: number | null;
  children: ComponentChildren; // further details
}

export function SegmentDetails({ map, segment, children }: Props) {
  if (!map || segment === null) {
    return children ? (
      <div class="story">{children}</div>
    ) : (
      <p class="story soft">
        Click a {map?.segment_kind.includes(SegmentKind.view) ? "view" : "segment"} to see what
        holds it. Left and right step through history.
      </p>
    );
  }
  const use = segmentUse(map, segment);
  const greatest = use.liveBlocks[0];
  const holder =
    greatest === undefined ? "" : largestBlockSentence(map, greatest, use.liveBlocks.length);
  const document = shown.value!;
  return (
    <div class="story" data-segment={formatAddress(map.segment_address[segment])}>
      <div>
        <h3>
          {capitalize(segmentNoun(map.segment_kind[segment]))}{" "}
          <span class="code">{formatAddress(map.segment_address[segment])}</span>,{" "}
          {formatBytes(use.bytes)}
          <small>
            stream {document.streams[map.segment_stream[segment]] ?? "?"} · pool{" "}
            {document.pools[map.segment_pool[segment]] ?? "?"}
          </small>
        </h3>
        <p data-pinned>{segmentSummary(use, map.segment_kind[segment], holder)}</p>
        {use.liveBlocks.length > 1 && <OccupyingBlocks map={map} blocks={use.liveBlocks} />}
      </div>
      {children}
    </div>
  );
}

function largestBlockSentence(map: AddressMap, block: number, count: number): string {
  const what = count === 1 ? "It is" : "The largest is";
  const stack = map.block_stack[block];
  const by =
    stacksRecorded.value && stack !== kNone
      ? `, allocated by ${stackTitle(stacks.value, stack)}`
      : "";
  return `${what} ${ageText(map.block_made[block], map.at)}${by}.`;
}

interface Place extends MapPlace {
  map: AddressMap;
  x: number;
  y: number;
}

export function MapHover({ map, x, y, block, segment, extent }: Place) {
  if (block === kNone) {
    return (
      <div class="hover fixed" style={hoverPlace(x, y)}>
        <p class="title">
          {formatBytes(map.extent_bytes[extent])} <small>idle extent</small>
        </p>
        <dl>
          <ExtentValues map={map} extent={extent} />
        </dl>
      </div>
    );
  }
  const state = map.block_state[block];
  const bytes = map.block_bytes[block];
  const requested = map.block_requested[block];
  const isAway = state === BlockState.unmapped && extent !== kNone;
  const isHeld = state === BlockState.live || state === BlockState.pending;
  return (
    <div class="hover fixed" style={hoverPlace(x, y)}>
      <p class="title">
        {formatBytes(bytes)} <small>{isAway ? "extent in use elsewhere" : kStates[state]}</small>
      </p>
      {isHeld && (
        <>
          <p>{ageText(map.block_made[block], map.at)}</p>
          {stacksRecorded.value && (
            <p class="frame">{stackTitle(stacks.value, map.block_stack[block])}</p>
          )}
        </>
      )}
      <dl>
        {(isHeld || state === BlockState.merged) && (
          <>
            <dt>requested</dt>
            <dd>
              {formatBytes(requested)} ({formatShare(requested, bytes)})
            </dd>
          </>
        )}
        <dt>size of the {segmentNoun(map.segment_kind[segment])}</dt>
        <dd>{formatBytes(map.segment_bytes[segment])}</dd>
        <dt>at</dt>
        <dd class="code">
          {formatAddress(map.segment_address[segment] + BigInt(map.block_offset[block]))}
        </dd>
        {extent !== kNone && <ExtentValues map={map} extent={extent} />}
      </dl>
    </div>
  );
}

// Returns the position of the tooltip relative to the window, because the map scrolls.
function hoverPlace(x: number, y: number) {
  const host = document.querySelector(".map")!;
  const box = host.getBoundingClientRect();
  const { left, top } = besidePointer(host, { x, y }, { width: 340, height: 260 });
  return { left: `${box.left + left}px`, top: `${box.top + top}px` };
}
