// SPDX-License-Identifier: Apache-2.0
//
// The interface for drawing many rectangles, with WebGL2 on a GPU, otherwise on a 2D canvas. The
// timeline and the address map use it.
import type { Quads } from "../model/tile_quads.ts";
import { CanvasPainter } from "./canvas_painter.ts";
import { WebglPainter } from "./webgl_painter.ts";

// Transforms quads to pixels: x * scaleX + offsetX and y * scaleY + offsetY, with y downwards.
export interface Placement {
  scaleX: number;
  offsetX: number;
  scaleY: number;
  offsetY: number;
  left: number; // first pixel of the clip range
  right: number; // end of the clip range
}

// The alpha of a colour selects the fill pattern, because no rectangle is transparent.
export const Fill = { plain: 255, hatched: 128, dotted: 64 } as const;

// Rectangles stored in a painter.
export interface PaintedQuads {
  setColors(colors: Uint32Array): void; // one colour per rectangle, from packColor()
  draw(placement: Placement): void;
  release(): void;
}

export interface QuadPainter {
  readonly kind: "webgl2" | "canvas";
  // Starts a frame. Sizes are in CSS pixels; `ratio` is the number of device pixels per CSS pixel.
  start(width: number, height: number, ratio: number): void;
  add(quads: Quads): PaintedQuads;
  release(): void;
}

// Makes a painter for the canvas. The painter calls `restored` when a lost context has been
// restored and everything must be redrawn. The URL parameters `?draw=webgl2` and `?draw=canvas`
// override the choice, for tests.
export function makePainter(canvas: HTMLCanvasElement, restored: () => void): QuadPainter {
  const wanted =
    new URLSearchParams(location.search).get("draw") ?? (hasGpu() ? "webgl2" : "canvas");
  const gl = wanted === "webgl2" ? canvas.getContext("webgl2", { antialias: false }) : null;
  if (gl) return new WebglPainter(gl, restored);
  const plain = canvas.getContext("2d");
  if (!plain) throw new Error("this browser supports neither WebGL2 nor a 2D canvas");
  return new CanvasPainter(plain);
}

let gpu: boolean | null = null;

// Without a GPU, WebGL2 is emulated and ten times slower than the canvas. Not all browsers report
// this through failIfMajorPerformanceCaveat, so the renderer's name is checked as well.
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
