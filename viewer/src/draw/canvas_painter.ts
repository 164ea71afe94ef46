// SPDX-License-Identifier: Apache-2.0
//
// Draws rectangles on a 2D canvas, for machines without a GPU, where WebGL2 is missing, or emulated
// and ten times slower than this.
import type { Quads } from "../model/tile_quads.ts";
import { paperOf, resize } from "./canvas.ts";
import { Fill, type PaintedQuads, type Placement, type QuadPainter } from "./quad_painter.ts";

const kMinEdgedHeight = 4; // rectangles up to this height in pixels have no darker edge

export class CanvasPainter implements QuadPainter {
  readonly kind = "canvas";
  private width = 0;
  private height = 0;
  private ratio = 1;
  private paper = [0, 0, 0];
  private readonly styles = new Map<number, string | CanvasPattern>();

  constructor(private readonly context: CanvasRenderingContext2D) {}

  release(): void {}

  start(width: number, height: number, ratio: number): void {
    const { context } = this;
    resize(context.canvas, width, height, ratio);
    this.width = context.canvas.width;
    this.height = context.canvas.height;
    this.ratio = ratio;
    const paper = paperOf(context.canvas);
    if (paper.some((channel, i) => channel !== this.paper[i])) this.styles.clear();
    this.paper = paper;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
  }

  add(quads: Quads): PaintedQuads {
    let colors = new Uint32Array(quads.count);
    return {
      setColors: (values) => (colors = values.slice()),
      draw: (placement) => this.draw(quads, colors, placement),
      release: () => {},
    };
  }

  // Edges are rounded to pixels, so that adjacent rectangles meet without a seam. Rectangles
  // thinner than a pixel may vanish.
  private draw(quads: Quads, colors: Uint32Array, to: Placement): void {
    const { context, ratio } = this;
    const { box } = quads;
    const [scaleX, offsetX] = [to.scaleX * ratio, to.offsetX * ratio];
    const [scaleY, offsetY] = [to.scaleY * ratio, to.offsetY * ratio];
    const first = Math.max(0, Math.round(to.left * ratio));
    const last = Math.min(this.width, Math.round(to.right * ratio));
    let color = -1;
    for (let i = 0; i < quads.count; ++i) {
      const left = Math.max(first, Math.round(box[4 * i] * scaleX + offsetX));
      const right = Math.min(last, Math.round(box[4 * i + 1] * scaleX + offsetX));
      if (right <= left) continue;
      const a = Math.round(box[4 * i + 2] * scaleY + offsetY);
      const b = Math.round(box[4 * i + 3] * scaleY + offsetY);
      const top = a < b ? a : b;
      const height = a < b ? b - a : a - b;
      if (height === 0 || top >= this.height || top + height <= 0) continue;
      if (colors[i] !== color) {
        color = colors[i];
        context.fillStyle = this.styleOf(color);
      }
      context.fillRect(left, top, right - left, height);
      if (height <= kMinEdgedHeight) continue;
      context.fillStyle = "rgb(0 0 0 / 0.2)";
      context.fillRect(left, b < a ? top : top + height - 1, right - left, 1);
      color = -1;
    }
  }

  private styleOf(color: number): string | CanvasPattern {
    let style = this.styles.get(color);
    if (!style) this.styles.set(color, (style = this.makeStyle(color)));
    return style;
  }

  private makeStyle(color: number): string | CanvasPattern {
    const rgb = [color & 255, (color >> 8) & 255, (color >> 16) & 255];
    const plain = `rgb(${rgb.join(" ")})`;
    const fill = color >>> 24;
    if (fill === Fill.plain) return plain;
    const cell = document.createElement("canvas");
    cell.width = cell.height = fill === Fill.hatched ? 7 : 6;
    const pen = cell.getContext("2d");
    if (!pen) return plain;
    const ground = rgb.map((channel, i) => Math.round(channel + (this.paper[i] - channel) * 0.75));
    pen.fillStyle =
      fill === Fill.hatched ? `rgb(${ground.join(" ")})` : `rgb(${this.paper.join(" ")})`;
    pen.fillRect(0, 0, cell.width, cell.height);
    pen.fillStyle = plain;
    if (fill === Fill.dotted) pen.fillRect(0, 0, 2, 2);
    else for (let i = 0; i < 7; ++i) pen.fillRect((7 - i) % 7, i, 2, 1);
    return this.context.createPattern(cell, "repeat") ?? plain;
  }
}
