// SPDX-License-Identifier: Apache-2.0
//
// Details of an extent: its home address, other mappings, and the blocks that pin it.
import type { AddressMap } from "../api/scene.ts";
import { extentSummary, extentUse, otherMappings } from "../model/extents.ts";
import { formatAddress, formatBytes, formatCount } from "../model/format.ts";
import { shown } from "../session.ts";
import { OccupyingBlocks } from "./occupying_blocks.tsx";

const kMappingsShown = 3; // addresses shown; the others are counted

interface ExtentProps {
  map: AddressMap;
  extent: number;
}

export function ExtentDetails({ map, extent }: ExtentProps) {
  const use = extentUse(map, extent);
  return (
    <div class="extent" data-extent={String(map.extent_id[extent])}>
      <h3>
        Extent <span class="code">{nameOf(map, extent)}</span>, {formatBytes(use.bytes)}
        <small>
          {map.extent_is_large[extent] ? "large" : "small"} blocks · last used by stream{" "}
          {shown.value!.streams[map.extent_stream[extent]] ?? "?"}
        </small>
      </h3>
      <p data-held>{extentSummary(map, extent, use)}</p>
      <p class="soft" data-mappings>
        {mappingsSentence(map, extent)}
      </p>
      {use.liveBlocks.length > 0 && <OccupyingBlocks map={map} blocks={use.liveBlocks} />}
    </div>
  );
}

// The details of an extent, as rows of a description list.
export function ExtentValues({ map, extent }: ExtentProps) {
  const others = otherMappings(map, extent);
  return (
    <>
      <dt>extent</dt>
      <dd class="code" data-hover-extent={String(map.extent_id[extent])}>
        {nameOf(map, extent)}, {formatBytes(map.extent_bytes[extent])}
      </dd>
      <dt>in use at</dt>
      <dd class="code">
        {map.extent_has_home[extent] ? formatAddress(map.extent_home[extent]) : "none (idle)"}
      </dd>
      <dt>{map.extent_has_home[extent] ? "also mapped at" : "mapped at"}</dt>
      <dd class="code">{others.length === 0 ? "none" : addressesText(others)}</dd>
    </>
  );
}

function mappingsSentence(map: AddressMap, extent: number): string {
  const others = otherMappings(map, extent);
  const home = map.extent_has_home[extent]
    ? `In use at ${formatAddress(map.extent_home[extent])}`
    : "Idle";
  if (others.length === 0) return `${home}; no other mappings.`;
  const also = map.extent_has_home[extent] ? "It is also mapped at" : "It is mapped at";
  return `${home}. ${also} ${addressesText(others)}, where it can be reused without a driver call.`;
}

function addressesText(addresses: BigUint64Array): string {
  const named = [...addresses.subarray(0, kMappingsShown)].map(formatAddress).join(", ");
  const more = addresses.length - kMappingsShown;
  return more > 0 ? `${named} and ${formatCount(more)} more` : named;
}

// Extent ids are small numbers or driver addresses.
function nameOf(map: AddressMap, extent: number): string {
  const id = map.extent_id[extent];
  return id < 2n ** 32n ? String(id) : formatAddress(id);
}
