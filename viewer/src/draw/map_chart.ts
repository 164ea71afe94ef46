// SPDX-License-Identifier: Apache-2.0
//
// The address map on two canvases of the size of the visible area: blocks on the lower canvas;
// outlines of segments, extents, headings and the selection on the upper canvas.
import { type AddressMap, kNone } from "../api/scene.ts";
import { mappedRangeAt } from "../model/extents.ts";
import { formatBytes, plural } from "../model/format.ts";
import {
  boxAt,
  fittingBytesPerPixel,
  kLineHeight,
  layOutMap,
  type MapHeading,
  type MapLayout,
  type MapScale,
  offsetAt,
  quadAt,
} from "../model/map_layout.ts";
import { resize } from "./canvas.ts";
import { drawExtents, markExtent } from "./map_extents.ts";
import { makePainter, type PaintedQuads, type QuadPainter } from "./quad_painter.ts";

export interface MapOptions {
  map: AddressMap;
  zoom: number; // 1: the whole map is visible
  top: number; // fraction of the map's height above the window
  pools: string[];
  segment: number | null; // drawn with a bold outline
  extent: number | null; // drawn with a bold outline at all its mappings
  colorOf: (map: AddressMap, block: number) => number; // packed colour, including the fill pattern
  isSelected: (map: AddressMap, block: number) => boolean;
}

// The item at a point: a block of a segment with its extent, or an idle extent.
export interface MapPlace {
  block: number;
  segment: number;
  mappedRange: number; // kNone: unknown, or an idle extent
  extent: number; // kNone: unknown, or several, merged
}

const kInset = 16; // margin on both sides

export class MapChart {
  private readonly painter: QuadPainter;
  private layout: MapLayout | null = null;
  private scale: MapScale = { width: 0, bytesPerPixel: 1 };
  private painted: PaintedQuads | null = null;
  private laidOutFor = "";
  private coloredAs: unknown = null;
  private options: MapOptions | null = null;
  private frame = 0;
  private top = 0; // the scroll position, in the unit of MapOptions.top

  constructor(
    private readonly host: HTMLElement,
    private readonly spacer: HTMLElement,
    canvas: HTMLCanvasElement,
    private readonly overlay: HTMLCanvasElement,
  ) {
    this.painter = makePainter(canvas, () => this.drawSoon());
    host.dataset.painter = this.painter.kind;
  }

  show(options: MapOptions): void {
    if (options.map !== this.options?.map) this.laidOutFor = "";
    this.options = options;
    this.drawSoon();
  }

  drawSoon(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  release(): void {
    cancelAnimationFrame(this.frame);
    this.painted?.release();
    this.painter.release();
  }

  // Returns the MapOptions.top to which the user has scrolled. A show() with this value does not
  // scroll the chart.
  scrolledTop(): number {
    if (this.layout) this.top = this.host.scrollTop / this.spacer.clientHeight;
    return this.top;
  }

  // Returns the item at a point of the visible area; null if there is none.
  placeAt(windowX: number, windowY: number): MapPlace | null {
    const { layout, options } = this;
    if (!layout || !options) return null;
    const [x, y] = [windowX - kInset, windowY + this.host.scrollTop];
    const quad = quadAt(layout, x, y);
    if (quad < 0) {
      const idle = boxAt(layout.idle, x, y);
      return idle ? { block: kNone, segment: kNone, mappedRange: kNone, extent: idle.index } : null;
    }
    const segment = layout.segmentOf[quad];
    const offset = offsetAt(this.scale, layout.origins[segment], x, y);
    const mappedRange = mappedRangeAt(options.map, segment, offset);
    const extent = mappedRange === kNone ? kNone : options.map.range_extent[mappedRange];
    return { block: layout.quads.row[quad], segment, mappedRange, extent };
  }

  private draw(): void {
    this.frame = 0;
    const { options } = this;
    if (!options) return;
    const isNewLayout = this.layOut(options);
    if (isNewLayout || options.top !== this.top) {
      this.top = options.top;
      this.host.scrollTop = this.top * this.spacer.clientHeight;
    }
    this.color(options);
    const width = this.host.clientWidth;
    const height = this.host.clientHeight;
    this.painter.start(width, height, devicePixelRatio);
    this.painted!.draw({
      scaleX: 1,
      offsetX: kInset,
      scaleY: 1,
      offsetY: -this.host.scrollTop,
      left: 0,
      right: width,
    });
    this.drawOverlay(options, width, height);
    this.host.dataset.at = String(options.map.at);
    this.host.dataset.settled = "true";
  }

  // Returns whether the layout has changed.
  private layOut(options: MapOptions): boolean {
    const width = this.host.clientWidth - 2 * kInset;
    const height = this.host.clientHeight - 12;
    const name = `${width} ${height} ${options.zoom}`;
    if (name === this.laidOutFor) return false;
    this.laidOutFor = name;
    const fitting = fittingBytesPerPixel(options.map, width, height);
    this.scale = { width, bytesPerPixel: fitting / options.zoom };
    this.layout = layOutMap(options.map, this.scale);
    this.spacer.style.height = `${this.layout.height + 12}px`;
    this.painted?.release();
    this.painted = this.painter.add(this.layout.quads);
    this.coloredAs = null;
    return true;
  }

  private color(options: MapOptions): void {
    if (this.coloredAs === options.colorOf) return;
    this.coloredAs = options.colorOf;
    const { row, count } = this.layout!.quads;
    const colors = new Uint32Array(count);
    for (let i = 0; i < count; ++i) colors[i] = options.colorOf(options.map, row[i]);
    this.painted!.setColors(colors);
  }

  private drawOverlay(options: MapOptions, width: number, height: number): void {
    const context = this.overlay.getContext("2d");
    if (!context) return;
    resize(this.overlay, width, height, devicePixelRatio);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.translate(kInset, -this.host.scrollTop);
    const style = getComputedStyle(this.overlay);
    this.drawHeadings(context, style, options);
    const window = [this.host.scrollTop - kLineHeight, this.host.scrollTop + height] as const;
    const extents = { style, map: options.map, layout: this.layout!, window };
    drawExtents(context, extents);
    this.drawOutlines(context, style, options);
    if (options.extent !== null) markExtent(context, options.extent, extents);
    this.drawSelected(context, style, options);
  }

  private drawHeadings(
    context: CanvasRenderingContext2D,
    style: CSSStyleDeclaration,
    options: MapOptions,
  ) {
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "alphabetic";
    context.fillStyle = style.getPropertyValue("--ink-soft");
    for (const heading of this.layout!.headings) {
      context.fillText(headingText(heading, options.pools), 0, heading.y + 19);
    }
  }

  private drawOutlines(
    context: CanvasRenderingContext2D,
    style: CSSStyleDeclaration,
    options: MapOptions,
  ) {
    context.lineWidth = 1;
    context.strokeStyle = style.getPropertyValue("--ink-faint");
    const [top, bottom] = [
      this.host.scrollTop - kLineHeight,
      this.host.scrollTop + this.host.clientHeight,
    ];
    for (const piece of this.layout!.pieces) {
      if (piece.y < top || piece.y > bottom || piece.segment === options.segment) continue;
      outline(context, piece.left, piece.right, piece.y);
    }
    context.lineWidth = 2.5;
    context.strokeStyle = style.getPropertyValue("--cursor");
    for (const piece of this.layout!.pieces) {
      if (piece.segment === options.segment) outline(context, piece.left, piece.right, piece.y);
    }
  }

  // A small selection needs a marker in addition to its colour.
  private drawSelected(
    context: CanvasRenderingContext2D,
    style: CSSStyleDeclaration,
    options: MapOptions,
  ) {
    const { quads } = this.layout!;
    context.fillStyle = style.getPropertyValue("--cursor");
    for (let i = 0; i < quads.count; ++i) {
      if (!options.isSelected(options.map, quads.row[i])) continue;
      const middle = (quads.box[4 * i] + quads.box[4 * i + 1]) / 2;
      context.beginPath();
      context.moveTo(middle, quads.box[4 * i + 2] + 3);
      context.lineTo(middle - 4, quads.box[4 * i + 2] - 3);
      context.lineTo(middle + 4, quads.box[4 * i + 2] - 3);
      context.fill();
    }
  }
}

function headingText(heading: MapHeading, pools: string[]): string {
  const pool = pools[heading.pool] ?? "?";
  const parts = [
    pool === "default" ? "default pool" : `pool ${pool}`,
    ...(heading.views > 0 ? [plural(heading.views, "view")] : []),
    ...(heading.segments > 0 ? [plural(heading.segments, "segment")] : []),
    ...(heading.idle > 0 ? [plural(heading.idle, "idle extent"), "not in use by any view"] : []),
    formatBytes(heading.bytes),
  ];
  return parts.join(" · ");
}

function outline(context: CanvasRenderingContext2D, left: number, right: number, y: number): void {
  context.strokeRect(left + 0.5, y + 0.5, Math.max(1, right - left - 1), kLineHeight - 1);
}
