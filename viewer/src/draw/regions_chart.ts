// SPDX-License-Identifier: Apache-2.0
//
// Draws lanes of regions above the timeline, with its horizontal scale.
import type { PhaseName } from "../api/scene.ts";
import { cssColor, kPalette, mix, type Rgb, type Theme } from "../model/colors.ts";
import { type Lane, type Region, regionAt, regionsIn } from "../model/regions.ts";
import type { Axis } from "../model/axis.ts";
import type { Span } from "../model/tiles.ts";
import { clipMiddle, resize } from "./canvas.ts";
import { HorizontalScale, kMargin } from "./timeline_options.ts";

export const kLaneHeight = 18;
const kGap = 2; // between lanes
const kMinWidth = 1; // pixels; closer regions are drawn as one
const kMinLabelWidth = 18; // pixels

export interface RegionOptions {
  lanes: Lane[];
  axis: Axis;
  span: Span;
  theme: Theme;
}

const kPhaseColors: Record<PhaseName, Rgb> = {
  forward: kPalette[7],
  backward: kPalette[8],
  optimizer: kPalette[9],
  evaluation: kPalette[10],
  other: kPalette[11],
};
const kPlain: Record<Theme, Rgb> = { light: [222, 226, 233], dark: [58, 63, 73] };
const kDark: Rgb = [24, 26, 30];

export function drawRegions(
  canvas: HTMLCanvasElement,
  options: RegionOptions,
  width: number,
): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  resize(canvas, width, options.lanes.length * kLaneHeight, devicePixelRatio);
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, width, options.lanes.length * kLaneHeight);
  context.font = "11.5px system-ui, sans-serif";
  context.textBaseline = "middle";
  const scale = scaleOf(options, width);
  const soft = getComputedStyle(canvas).getPropertyValue("--ink-soft");
  const ink = getComputedStyle(canvas).getPropertyValue("--ink");
  options.lanes.forEach((lane, i) => {
    const middle = i * kLaneHeight + (kLaneHeight - kGap) / 2;
    context.fillStyle = soft;
    context.textAlign = "right";
    context.fillText(lane.title, kMargin.left - 8, middle);
    context.textAlign = "left";
    let drawnTo = -Infinity;
    for (const region of regionsIn(lane, options.span.from, options.span.to)) {
      const { left, right } = extentOf(scale, region);
      if (right < 0 || right - drawnTo < kMinWidth) continue;
      drawnTo = Math.max(right, left + kMinWidth);
      context.fillStyle = cssColor(colorOf(region, options.theme));
      const gap = right - left > 4 ? 1 : 0; // separates adjacent regions
      context.fillRect(
        kMargin.left + left,
        i * kLaneHeight,
        drawnTo - left - gap,
        kLaneHeight - kGap,
      );
      if (right - left < kMinLabelWidth) continue;
      context.fillStyle = ink;
      const text = clipMiddle(
        region.label,
        (part) => context.measureText(part).width <= right - left - 8,
      );
      if (text !== "…") context.fillText(text, kMargin.left + left + 4, middle + 0.5);
    }
  });
}

// Returns the region at a point of the canvas; null if there is none.
export function regionUnder(
  options: RegionOptions,
  width: number,
  at: { x: number; y: number },
): Region | null {
  const lane = options.lanes[Math.floor(at.y / kLaneHeight)];
  const x = at.x - kMargin.left;
  if (!lane || x < 0 || x > plotWidth(width)) return null;
  const { axis } = options;
  return regionAt(lane, axis.entry(scaleOf(options, width).position(x)));
}

function scaleOf({ axis, span }: RegionOptions, width: number): HorizontalScale {
  return new HorizontalScale(axis, span, plotWidth(width));
}

function plotWidth(width: number): number {
  return Math.max(1, width - kMargin.left - kMargin.right);
}

// Returns the pixels that a region covers in the plot.
function extentOf(scale: HorizontalScale, region: Region): { left: number; right: number } {
  return {
    left: Math.max(0, scale.x(region.from)),
    right: Math.min(scale.width, scale.x(region.to)),
  };
}

function colorOf(region: Region, theme: Theme): Rgb {
  if (region.phase === null) return kPlain[theme];
  const color = kPhaseColors[region.phase];
  return theme === "light" ? color : mix(color, kDark, 0.5);
}
