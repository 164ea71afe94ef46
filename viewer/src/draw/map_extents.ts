// SPDX-License-Identifier: Apache-2.0
//
// The memory behind the addresses, upon the map: a rail under each stretch of a view that an extent
// is mapped at, solid where the extent is at home and hollow where its memory is away; and idle
// extents, which have no blocks to lie under.
import type { AddressMap } from "../ask/scene.ts";
import { kLine, type MapBox, type MapLayout } from "../model/map_layout.ts";

interface Wanted {
  style: CSSStyleDeclaration;
  map: AddressMap;
  layout: MapLayout;
  window: readonly [top: number, bottom: number]; // what is elsewhere is not drawn
}

const kRail = 4; // pixels high

export function drawExtents(context: CanvasRenderingContext2D, wanted: Wanted): void {
  const { map, layout, style } = wanted;
  const isSeen = (box: MapBox) => isWithin(box, wanted.window);
  const ink = style.getPropertyValue("--ink");
  const paper = style.getPropertyValue("--paper");
  for (const box of layout.stretches) {
    if (isSeen(box)) drawRail(context, box, map.stretch_is_home[box.of] !== 0, ink, paper);
  }
  context.lineWidth = 1;
  context.strokeStyle = style.getPropertyValue("--ink-soft");
  context.setLineDash([3, 2]);
  for (const box of layout.idle) if (isSeen(box)) outlineBox(context, box);
  context.setLineDash([]);
  for (const box of layout.idle) if (isSeen(box)) drawRail(context, box, true, ink, paper);
}

// Wherever it is mapped.
export function markExtent(
  context: CanvasRenderingContext2D,
  extent: number,
  { map, layout, style, window }: Wanted,
): void {
  context.lineWidth = 2.5;
  context.strokeStyle = style.getPropertyValue("--accent");
  const boxes = [
    ...layout.stretches.filter((box) => map.stretch_extent[box.of] === extent),
    ...layout.idle.filter((box) => box.of === extent),
  ];
  for (const box of boxes) if (isWithin(box, window)) outlineBox(context, box);
}

function isWithin(box: MapBox, [top, bottom]: Wanted["window"]): boolean {
  return box.y >= top && box.y <= bottom;
}

// A pixel of paper sets it off from the blocks, and one extent from the next unless they are too
// narrow. Of what is away there are only the upper and the lower edge, so that many in a row look
// hollow however narrow they are.
function drawRail(
  context: CanvasRenderingContext2D,
  box: MapBox,
  isHome: boolean,
  ink: string,
  paper: string,
): void {
  const width = box.right - box.left;
  const y = box.y + kLine - kRail;
  const wide = width > 4 ? width - 1 : width;
  context.fillStyle = paper;
  context.fillRect(box.left, y - 1, width, kRail + 1);
  context.fillStyle = ink;
  if (isHome) {
    context.fillRect(box.left, y, wide, kRail);
    return;
  }
  context.fillRect(box.left, y, wide, 1);
  context.fillRect(box.left, y + kRail - 1, wide, 1);
  if (width <= 4) return;
  context.fillRect(box.left, y, 1, kRail);
  context.fillRect(box.left + wide - 1, y, 1, kRail);
}

function outlineBox(context: CanvasRenderingContext2D, box: MapBox): void {
  context.strokeRect(box.left + 0.5, box.y + 0.5, Math.max(1, box.right - box.left - 1), kLine - 1);
}
