// SPDX-License-Identifier: Apache-2.0
//
// What there is to say of an extent: where its memory is, where else it is mapped, what holds it.
import type { AddressMap } from "../ask/scene.ts";
import { extentSentence, extentUse, otherPlaces } from "../model/extents.ts";
import { formatAddress, formatBytes, formatCount } from "../model/format.ts";
import { shown } from "../session.ts";
import { HeldBlocks } from "./held_blocks.tsx";

const kPlaces = 3; // that are named; of more, how many

interface Told {
  map: AddressMap;
  extent: number;
}

export function ExtentStory({ map, extent }: Told) {
  const use = extentUse(map, extent);
  return (
    <div class="extent" data-extent={String(map.extent_id[extent])}>
      <h3>
        Extent <span class="code">{nameOf(map, extent)}</span>, {formatBytes(use.bytes)}
        <small>
          {map.extent_is_large[extent] ? "large" : "small"} blocks · used last by stream{" "}
          {shown.value!.streams[map.extent_stream[extent]] ?? "?"}
        </small>
      </h3>
      <p data-held>{extentSentence(map, extent, use)}</p>
      <p class="soft" data-places>
        {placesSentence(map, extent)}
      </p>
      {use.liveBlocks.length > 0 && <HeldBlocks map={map} blocks={use.liveBlocks} />}
    </div>
  );
}

// The same as rows of a list of figures.
export function ExtentFigures({ map, extent }: Told) {
  const others = otherPlaces(map, extent);
  return (
    <>
      <dt>extent</dt>
      <dd class="code" data-hover-extent={String(map.extent_id[extent])}>
        {nameOf(map, extent)}, {formatBytes(map.extent_bytes[extent])}
      </dd>
      <dt>its memory is at</dt>
      <dd class="code">
        {map.extent_has_home[extent] ? formatAddress(map.extent_home[extent]) : "no address: idle"}
      </dd>
      <dt>{map.extent_has_home[extent] ? "also mapped at" : "mapped at"}</dt>
      <dd class="code">{others.length === 0 ? "no other" : addressesText(others)}</dd>
    </>
  );
}

function placesSentence(map: AddressMap, extent: number): string {
  const others = otherPlaces(map, extent);
  const home = map.extent_has_home[extent]
    ? `Its memory is at ${formatAddress(map.extent_home[extent])}`
    : "Its memory is at no address";
  if (others.length === 0) return `${home}; it is mapped nowhere else.`;
  const also = map.extent_has_home[extent] ? "It is also mapped at" : "It is mapped at";
  return `${home}. ${also} ${addressesText(others)}, and can be used there again at no cost.`;
}

function addressesText(places: BigUint64Array): string {
  const named = [...places.subarray(0, kPlaces)].map(formatAddress).join(", ");
  const more = places.length - kPlaces;
  return more > 0 ? `${named} and ${formatCount(more)} more` : named;
}

// Devices count them, or give them the addresses of what they keep of them.
function nameOf(map: AddressMap, extent: number): string {
  const id = map.extent_id[extent];
  return id < 2n ** 32n ? String(id) : formatAddress(id);
}
