// SPDX-License-Identifier: Apache-2.0
//
// Draws many rectangles: by WebGL2 where a GPU does it, else on a plain canvas. Timeline and
// address map both draw through this and nothing else.
import type { Quads } from "../model/tile_quads.ts";
import { CanvasPainter } from "./canvas_painter.ts";
import { WebglPainter } from "./webgl_painter.ts";

// From the units of the quads to pixels: x * scaleX + offsetX, likewise y, downwards.
export interface Placement {
  scaleX: number;
  offsetX: number;
  scaleY: number;
  offsetY: number;
  left: number; // nothing is drawn left of this pixel,
  right: number; // nor from this one on
}

// A colour's alpha says how the rectangle is filled, since none is transparent.
export const Fill = { plain: 255, hatched: 128, dotted: 64 } as const;

// Rectangles as a painter keeps them.
export interface PaintedQuads {
  setColors(colors: Uint32Array): void; // one for each, as packColor() makes them
  draw(placement: Placement): void;
  release(): void;
}

export interface QuadPainter {
  readonly kind: "webgl2" | "canvas";
  // Sizes in CSS pixels; `ratio` device pixels to one.
  start(width: number, height: number, ratio: number): void;
  add(quads: Quads): PaintedQuads;
  release(): void;
}

// `restored`: what was drawn is gone, and must be drawn again. `?draw=webgl2` and `?draw=canvas`
// insist, for tests.
export function makePainter(canvas: HTMLCanvasElement, restored: () => void): QuadPainter {
  const wanted =
    new URLSearchParams(location.search).get("draw") ?? (hasGpu() ? "webgl2" : "canvas");
  const gl = wanted === "webgl2" ? canvas.getContext("webgl2", { antialias: false }) : null;
  if (gl) return new WebglPainter(gl, restored);
  const plain = canvas.getContext("2d");
  if (!plain) throw new Error("this browser can draw neither with WebGL2 nor on a canvas");
  return new CanvasPainter(plain);
}

let gpu: boolean | null = null;

// Without a GPU, WebGL2 is drawn by the processor, rectangle by rectangle, and takes ten times as
// long as the canvas does. Browsers should say so by failIfMajorPerformanceCaveat; not all do.
function hasGpu(): boolean {
  if (gpu !== null) return gpu;
  const gl = document
    .createElement("canvas")
    .getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  const names = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = gl && names ? String(gl.getParameter(names.UNMASKED_RENDERER_WEBGL)) : "";
  gpu = gl !== null && !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return gpu;
}
