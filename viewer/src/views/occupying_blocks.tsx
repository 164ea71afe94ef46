// SPDX-License-Identifier: Apache-2.0
//
// The live blocks in a segment or extent, largest first. A click selects the allocation.
import type { AddressMap } from "../api/scene.ts";
import { ageText } from "../model/age.ts";
import { formatBytes, formatCount } from "../model/format.ts";
import { stackTitle } from "../model/frames.ts";
import { stacks, stacksRecorded } from "../session.ts";
import { select } from "../state.ts";

const kMaxListed = 6;

export function OccupyingBlocks({ map, blocks }: { map: AddressMap; blocks: number[] }) {
  return (
    <ul class="pins">
      {blocks.slice(0, kMaxListed).map((block) => (
        <li key={block}>
          <button
            type="button"
            class="link"
            onClick={() => select("allocation", map.block_allocation[block])}
          >
            {formatBytes(map.block_requested[block] || map.block_bytes[block])}
          </button>{" "}
          <span class="soft">
            {ageText(map.block_made[block], map.at)}
            {stacksRecorded.value && ` · ${stackTitle(stacks.value, map.block_stack[block])}`}
          </span>
        </li>
      ))}
      {blocks.length > kMaxListed && (
        <li class="soft">and {formatCount(blocks.length - kMaxListed)} smaller blocks</li>
      )}
    </ul>
  );
}
