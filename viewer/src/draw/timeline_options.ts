// SPDX-License-Identifier: Apache-2.0
//
// The options of a timeline, and the margins of its plot.
import type { ViewClient } from "../api/client.ts";
import type { DocumentScene, Grouping, Tile } from "../api/scene.ts";
import type { Axis } from "../model/axis.ts";
import type { Rgb } from "../model/colors.ts";
import type { SmallBy } from "../model/tile_quads.ts";
import type { Span } from "../model/tiles.ts";

export const kMargin = { left: 84, right: 30, top: 26, bottom: 38 };

// The positions of the plot's left and right edges, and the transformation to pixels.
export class HorizontalScale {
  private readonly from: number;
  readonly perPixel: number;

  constructor(
    private readonly axis: Axis,
    span: Span,
    readonly width: number,
  ) {
    this.from = axis.position(span.from);
    this.perPixel = (axis.position(span.to) - this.from) / width;
  }

  // Returns the pixel of a position on the axis.
  pixel(position: number): number {
    return (position - this.from) / this.perPixel;
  }
  position(pixel: number): number {
    return this.from + pixel * this.perPixel;
  }
  x(entry: number): number {
    return this.pixel(this.axis.position(entry));
  }
  mark(entry: number): number {
    return this.pixel(this.axis.mark(entry));
  }
}

export interface TimelineOptions {
  client: ViewClient;
  number: number;
  document: DocumentScene;
  by: Grouping;
  axis: Axis;
  span: Span;
  bytes: { from: number; to: number }; // range of the vertical axis
  cursor: number; // the entry of the cursor
  other: number | null; // entry to compare with; null: no comparison
  hover: { x: number; y: number } | null;
  marks: DocumentScene["annotations"]; // annotations that are not drawn as regions
  box: { x: number; y: number; width: number; height: number } | null; // the box to zoom to
  smallBy: SmallBy; // how merged small allocations are coloured
  // Returns the colour of a row of a tile (see tile_quads.ts); row kNone is the background. The
  // function is replaced only when colours change.
  colorOf: (tile: Tile, row: number) => Rgb;
}
