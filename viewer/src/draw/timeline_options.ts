// SPDX-License-Identifier: Apache-2.0
//
// The options of a timeline, and the margins of its plot.
import type { ViewClient } from "../api/client.ts";
import type { DocumentScene, Grouping, Tile } from "../api/scene.ts";
import type { Rgb } from "../model/colors.ts";
import type { Span } from "../model/tiles.ts";

export const kMargin = { left: 84, right: 30, top: 26, bottom: 38 };

export interface TimelineOptions {
  client: ViewClient;
  number: number;
  document: DocumentScene;
  by: Grouping;
  span: Span;
  bytes: { from: number; to: number }; // range of the vertical axis
  cursor: number; // the entry of the cursor
  other: number | null; // entry to compare with; null: no comparison
  hover: { x: number; y: number } | null;
  // Returns the colour of a tile's row. The function is replaced only when colours change.
  colorOf: (tile: Tile, row: number) => Rgb;
}
