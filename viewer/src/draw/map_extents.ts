// SPDX-License-Identifier: Apache-2.0
//
// Draws extents on the address map: a bar under each mapped range of a view, which is solid if the
// extent is in use at this address and hollow otherwise; and idle extents.
import type { AddressMap } from "../api/scene.ts";
import { kLineHeight, type MapBox, type MapLayout } from "../model/map_layout.ts";

interface ExtentDrawing {
  style: CSSStyleDeclaration;
  map: AddressMap;
  layout: MapLayout;
  window: readonly [top: number, bottom: number]; // only this range is drawn
}

const kBarHeight = 4; // pixels

export function drawExtents(context: CanvasRenderingContext2D, drawing: ExtentDrawing): void {
  const { map, layout, style } = drawing;
  const isSeen = (box: MapBox) => isWithin(box, drawing.window);
  const ink = style.getPropertyValue("--ink");
  const paper = style.getPropertyValue("--paper");
  for (const box of layout.mappedRanges) {
    if (isSeen(box)) drawExtentBar(context, box, map.range_is_home[box.index] !== 0, ink, paper);
  }
  context.lineWidth = 1;
  context.strokeStyle = style.getPropertyValue("--ink-soft");
  context.setLineDash([3, 2]);
  for (const box of layout.idle) if (isSeen(box)) outlineBox(context, box);
  context.setLineDash([]);
  for (const box of layout.idle) if (isSeen(box)) drawExtentBar(context, box, true, ink, paper);
}

// Outlines all mappings of an extent.
export function markExtent(
  context: CanvasRenderingContext2D,
  extent: number,
  { map, layout, style, window }: ExtentDrawing,
): void {
  context.lineWidth = 2.5;
  context.strokeStyle = style.getPropertyValue("--accent");
  const boxes = [
    ...layout.mappedRanges.filter((box) => map.range_extent[box.index] === extent),
    ...layout.idle.filter((box) => box.index === extent),
  ];
  for (const box of boxes) if (isWithin(box, window)) outlineBox(context, box);
}

function isWithin(box: MapBox, [top, bottom]: ExtentDrawing["window"]): boolean {
  return box.y >= top && box.y <= bottom;
}

// Draws a bar. A one-pixel gap separates the bar from the blocks and, if the bar is wider than 4
// pixels, from the next extent. Narrow hollow bars have no left and right edges, so that a row of
// them still looks hollow.
function drawExtentBar(
  context: CanvasRenderingContext2D,
  box: MapBox,
  isHome: boolean,
  ink: string,
  paper: string,
): void {
  const width = box.right - box.left;
  const y = box.y + kLineHeight - kBarHeight;
  const barWidth = width > 4 ? width - 1 : width;
  context.fillStyle = paper;
  context.fillRect(box.left, y - 1, width, kBarHeight + 1);
  context.fillStyle = ink;
  if (isHome) {
    context.fillRect(box.left, y, barWidth, kBarHeight);
    return;
  }
  context.fillRect(box.left, y, barWidth, 1);
  context.fillRect(box.left, y + kBarHeight - 1, barWidth, 1);
  if (width <= 4) return;
  context.fillRect(box.left, y, 1, kBarHeight);
  context.fillRect(box.left + barWidth - 1, y, 1, kBarHeight);
}

function outlineBox(context: CanvasRenderingContext2D, box: MapBox): void {
  context.strokeRect(
    box.left + 0.5,
    box.y + 0.5,
    Math.max(1, box.right - box.left - 1),
    kLineHeight - 1,
  );
}
