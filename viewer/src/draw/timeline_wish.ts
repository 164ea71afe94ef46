// SPDX-License-Identifier: Apache-2.0
//
// What a timeline is told to show, and the room around its plot.
import type { Answers } from "../ask/answers.ts";
import type { DocumentScene, Grouping, Tile } from "../ask/scene.ts";
import type { Rgb } from "../model/colors.ts";
import type { Span } from "../model/tiles.ts";

export const kMargin = { left: 84, right: 30, top: 26, bottom: 38 };

export interface TimelineWish {
  answers: Answers;
  number: number;
  document: DocumentScene;
  by: Grouping;
  span: Span;
  bytes: { from: number; to: number }; // what the vertical axis shows
  cursor: number;
  other: number | null;
  hover: { x: number; y: number } | null;
  // Colours of a tile's rows; the same function as long as they stay the same.
  colorOf: (tile: Tile, row: number) => Rgb;
}
