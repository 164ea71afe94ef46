// SPDX-License-Identifier: Apache-2.0
//
// The tooltip of the timeline: the moment, and the allocation or group under the pointer.
import { type Grouping, kNone } from "../api/scene.ts";
import type { HitResult } from "../draw/timeline_chart.ts";
import { ageText } from "../model/age.ts";
import { formatBytes, formatCount, formatDuration } from "../model/format.ts";
import { stackTitle } from "../model/frames.ts";
import { smallGroupOf } from "../model/tile_quads.ts";
import { coloring, hasCategories, shown, stacks } from "../session.ts";
import { besidePointer } from "./use_chart.ts";

const kMaxWidth = 360; // pixels
const kHeight = 150; // approximate height in pixels

export interface HoverTarget {
  x: number;
  y: number;
  found: HitResult | null;
  mark: string | null; // text of the mark under the pointer
}

export function TimelineHover({ x, y, found, mark }: HoverTarget) {
  if (!found && mark === null) return null;
  const host = window.document.querySelector(".timeline")!;
  const { left, top } = besidePointer(host, { x, y }, { width: kMaxWidth, height: kHeight });
  return (
    <div class="hover" style={{ left: `${left}px`, top: `${top}px`, maxWidth: `${kMaxWidth}px` }}>
      {mark !== null && <p data-mark>{mark}</p>}
      {found && <HoverValues found={found} />}
    </div>
  );
}

function HoverValues({ found }: { found: HitResult }) {
  const document = shown.value!;
  const since = document.first_us === null ? null : found.time_us - document.first_us;
  return (
    <>
      <HoverItem found={found} />
      <dl>
        <dt>entry</dt>
        <dd>
          {formatCount(found.entry)}
          {since !== null && Number.isFinite(since) && ` · ${formatDuration(since)}`}
        </dd>
        <dt>requested</dt>
        <dd>{formatBytes(found.requested)}</dd>
        <dt>reserved</dt>
        <dd>{formatBytes(found.reserved)}</dd>
      </dl>
    </>
  );
}

function HoverItem({ found }: { found: HitResult }) {
  const { tile, row } = found;
  if (row < 0) return null;
  if (tile.by === "allocation") {
    const by = coloring.value.by;
    const small = smallGroupOf(tile, row, by);
    if (row === kNone || small) {
      return (
        <>
          <p class="title">
            small allocations,{" "}
            {formatBytes(small ? small.bytesIn(found.column) : tile.small[found.column])} together
          </p>
          {small && <p class="frame">{groupTitle(by, small.id)}</p>}
        </>
      );
    }
    const { id, bytes, made, freed, stack, category } = tile.rows;
    return (
      <>
        <p class="title">
          {formatBytes(bytes[row])} <small>allocation {formatCount(id[row])}</small>
        </p>
        <p>
          {ageText(made[row], found.entry)}
          {freed[row] === kNone
            ? ", never freed"
            : `, freed ${formatCount(Math.max(0, freed[row] - found.entry))} later`}
        </p>
        <p class="frame">{stackTitle(stacks.value, stack[row])}</p>
        {hasCategories.value && <p>{shown.value!.categories[category[row]]}</p>}
      </>
    );
  }
  const columns = tile.entry.length;
  return (
    <>
      <p class="title">{formatBytes(tile.bytes[row * columns + found.column])}</p>
      <p class="frame">{groupTitle(tile.by, tile.group[row])}</p>
    </>
  );
}

export function groupTitle(by: Exclude<Grouping, "allocation">, group: number): string {
  if (group === kNone) return `other ${by}s, merged`;
  if (by === "stack") return stackTitle(stacks.value, group);
  if (by === "category") return shown.value!.categories[group] ?? "unknown";
  const names = by === "stream" ? shown.value!.streams : shown.value!.pools;
  return by === "stream" ? streamTitle(names[group]) : `pool ${names[group] ?? group}`;
}

function streamTitle(name: string | undefined): string {
  return name === "0" ? "the default stream" : `stream ${name ?? "?"}`;
}
