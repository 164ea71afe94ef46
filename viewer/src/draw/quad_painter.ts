// Draws many rectangles: with WebGL2 where there is one, else on a plain canvas. Timeline and
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
}

export function makePainter(canvas: HTMLCanvasElement): QuadPainter {
  const wanted = new URLSearchParams(location.search).get("draw");
  const gl = wanted === "canvas" ? null : canvas.getContext("webgl2", { antialias: false });
  if (gl) return new WebglPainter(gl);
  const plain = canvas.getContext("2d");
  if (!plain) throw new Error("this browser can draw neither with WebGL2 nor on a canvas");
  return new CanvasPainter(plain);
}
