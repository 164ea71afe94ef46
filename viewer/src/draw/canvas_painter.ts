// Rectangles on a plain canvas, for browsers without WebGL2. The same picture, at fewer a second.
import type { Quads } from "../model/tile_quads.ts";
import { Fill, type PaintedQuads, type Placement, type QuadPainter } from "./quad_painter.ts";
import { resize } from "./webgl_painter.ts";

const kThinnest = 0.3; // pixels; what is thinner would only cost time

export class CanvasPainter implements QuadPainter {
  readonly kind = "canvas";
  private width = 0;
  private height = 0;

  constructor(private readonly context: CanvasRenderingContext2D) {}

  start(width: number, height: number, ratio: number): void {
    this.width = width;
    this.height = height;
    resize(this.context.canvas, width, height, ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
  }

  add(quads: Quads): PaintedQuads {
    let colors = new Uint32Array(quads.count);
    return {
      setColors: (values) => (colors = values.slice()),
      draw: (placement) => this.draw(quads, colors, placement),
      release: () => {},
    };
  }

  private draw(quads: Quads, colors: Uint32Array, to: Placement): void {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(to.left, 0, to.right - to.left, this.height);
    context.clip();
    let color = -1;
    for (let i = 0; i < quads.count; ++i) {
      const left = quads.box[4 * i] * to.scaleX + to.offsetX;
      const right = quads.box[4 * i + 1] * to.scaleX + to.offsetX;
      const a = quads.box[4 * i + 2] * to.scaleY + to.offsetY;
      const b = quads.box[4 * i + 3] * to.scaleY + to.offsetY;
      const top = Math.min(a, b);
      const height = Math.abs(b - a);
      if (right < 0 || left > this.width || top > this.height || top + height < 0) continue;
      if (height < kThinnest) continue;
      if (colors[i] !== color) {
        color = colors[i];
        context.fillStyle = cssOf(color);
      }
      context.fillRect(left, top, right - left, height);
    }
    context.restore();
  }
}

// Patterns become lighter fills.
function cssOf(color: number): string {
  const fill = color >>> 24;
  const alpha = fill === Fill.plain ? 1 : fill === Fill.hatched ? 0.45 : 0.15;
  return `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255} / ${alpha})`;
}
