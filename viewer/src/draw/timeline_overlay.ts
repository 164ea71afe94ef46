// SPDX-License-Identifier: Apache-2.0
//
// The overlay of the timeline: axes, lines of reserved and requested bytes and of the lower bound,
// cursors, annotations and OOMs.
import { scaleLinear } from "d3-scale";
import type { TileColumns } from "../api/scene.ts";
import { byteTicks, durationTicks, formatCount } from "../model/format.ts";
import { clipMiddle, line, resize } from "./canvas.ts";
import type { Placement } from "./quad_painter.ts";
import { HorizontalScale, kMargin, type TimelineOptions } from "./timeline_options.ts";

export interface LinePiece extends Placement {
  tile: TileColumns;
  positions: Float64Array | null; // of the columns; null: all have the same width
}

interface Pen {
  context: CanvasRenderingContext2D;
  options: TimelineOptions;
  width: number; // width of the plot
  height: number;
  scale: HorizontalScale;
  y: (bytes: number) => number;
  color: (name: string) => string;
}

const kFont = "12px system-ui, sans-serif";
const kMinMarkDistance = 60; // minimum distance of annotations with text, in pixels
const kMaxMarkWidth = 150; // maximum width of an annotation's text, in pixels

export function drawOverlay(
  canvas: HTMLCanvasElement,
  options: TimelineOptions,
  pieces: LinePiece[],
  size: { width: number; height: number },
): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  resize(canvas, size.width, size.height, devicePixelRatio);
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  context.translate(kMargin.left, kMargin.top);
  context.font = kFont;
  const width = size.width - kMargin.left - kMargin.right;
  const height = size.height - kMargin.top - kMargin.bottom;
  const style = getComputedStyle(canvas);
  const pen: Pen = {
    context,
    options,
    width,
    height,
    scale: new HorizontalScale(options.axis, options.span, width),
    y: (bytes) =>
      height - ((bytes - options.bytes.from) / (options.bytes.to - options.bytes.from)) * height,
    color: (name) => style.getPropertyValue(name),
  };
  drawAxes(pen);
  within(pen, 0, () => drawLines(pen, pieces));
  within(pen, kMargin.top, () => {
    drawMarks(pen);
    drawCursors(pen);
  });
  if (options.box) drawBox(pen, options.box);
}

// Calls draw() with a clip region: the plot and `above` pixels above it.
function within(pen: Pen, above: number, draw: () => void): void {
  pen.context.save();
  pen.context.beginPath();
  pen.context.rect(0, -above, pen.width, pen.height + above);
  pen.context.clip();
  draw();
  pen.context.restore();
}

function drawAxes(pen: Pen): void {
  const { context, options, width, height } = pen;
  context.lineWidth = 1;
  context.fillStyle = pen.color("--ink-soft");
  context.strokeStyle = pen.color("--grid-over");
  context.textBaseline = "middle";
  context.textAlign = "right";
  const wanted = Math.max(2, Math.floor(height / 70));
  const ticks = byteTicks(options.bytes.from, options.bytes.to, (from, to) =>
    scaleLinear([from, to], [0, 1]).ticks(wanted),
  );
  for (const tick of ticks) {
    const y = Math.round(pen.y(tick.bytes)) + 0.5;
    line(context, 0, y, width, y);
    context.fillText(tick.label, -8, y);
  }
  context.textBaseline = "top";
  for (const tick of horizontalTicks(pen)) {
    const x = Math.round(pen.scale.pixel(tick.position)) + 0.5;
    line(context, x, height, x, height + 4);
    // The last label must stay within the plot.
    context.textAlign = x > width - kMargin.right ? "right" : "center";
    context.fillText(tick.label, context.textAlign === "right" ? width : x, height + 8);
  }
  context.textAlign = "right";
  context.fillText(options.axis.kind === "entry" ? "entry →" : "time →", width, height + 23);
  context.strokeStyle = pen.color("--ink-faint");
  line(context, 0, height + 0.5, width, height + 0.5);
}

function horizontalTicks({ options, scale, width }: Pen): { position: number; label: string }[] {
  const [from, to] = [scale.position(0), scale.position(width)];
  const wanted = Math.max(2, Math.floor(width / 130));
  const ticksOf = (begin: number, end: number) => scaleLinear([begin, end], [0, 1]).ticks(wanted);
  if (options.axis.kind === "time") {
    return durationTicks(from, to, ticksOf).map(({ us, label }) => ({ position: us, label }));
  }
  return ticksOf(from, to)
    .filter((entry) => Number.isInteger(entry))
    .map((entry) => ({ position: entry, label: formatCount(entry) }));
}

function drawLines(pen: Pen, pieces: LinePiece[]): void {
  drawSteps(pen, pieces, "requested", "--line-requested");
  drawSteps(pen, pieces, "reserved_high", "--line-reserved");
  const { context } = pen;
  const y = Math.round(pen.y(pen.options.document.lower_bound)) + 0.5;
  context.strokeStyle = pen.color("--line-bound");
  context.lineWidth = 1.5;
  context.setLineDash([6, 4]);
  line(context, 0, y, pen.width, y);
  context.setLineDash([]);
}

function drawSteps(
  pen: Pen,
  pieces: LinePiece[],
  what: "requested" | "reserved_high",
  color: string,
): void {
  const { context } = pen;
  context.strokeStyle = pen.color(color);
  context.lineWidth = 1.5;
  context.beginPath();
  for (const piece of pieces) {
    const values = piece.tile[what];
    const x = (column: number) =>
      (piece.positions ? piece.positions[column] : column) * piece.scaleX + piece.offsetX;
    for (let column = 0; column < values.length; ++column) {
      if (x(column + 1) <= piece.left || x(column) >= piece.right) continue;
      const y = pen.y(values[column]);
      context.lineTo(x(column), y); // the first point of a path has no line to it
      context.lineTo(x(column + 1), y);
    }
  }
  context.stroke();
}

function drawMarks(pen: Pen): void {
  const { context, options, height } = pen;
  let previousLabelEnd = -Infinity; // labels that begin before this x are skipped
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const annotation of options.marks) {
    const x = pen.scale.mark(annotation.entry);
    if (x < 0 || x > pen.width) continue;
    context.strokeStyle = pen.color("--mark");
    context.lineWidth = 1;
    line(context, Math.round(x) + 0.5, -6, Math.round(x) + 0.5, 4);
    if (x < previousLabelEnd) continue;
    context.fillStyle = pen.color("--ink-soft");
    const text = clipMiddle(
      annotation.text,
      (part) => context.measureText(part).width <= kMaxMarkWidth,
    );
    context.fillText(text, x + 4, -12);
    previousLabelEnd = x + Math.max(kMinMarkDistance, context.measureText(text).width + 12);
  }
  context.fillStyle = context.strokeStyle = pen.color("--oom");
  for (const oom of options.document.ooms) {
    const x = Math.round(pen.scale.mark(oom.entry)) + 0.5;
    if (x < 0 || x > pen.width) continue;
    context.lineWidth = 1.5;
    context.setLineDash([2, 3]);
    line(context, x, 0, x, height);
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(x, 8);
    context.lineTo(x - 6, -3);
    context.lineTo(x + 6, -3);
    context.fill();
  }
}

function drawCursors(pen: Pen): void {
  const { options } = pen;
  if (options.other !== null) drawCursor(pen, options.other, { name: "B", dash: [5, 4] });
  drawCursor(pen, options.cursor, { name: options.other === null ? "" : "A", dash: [] });
  if (options.hover) {
    const { context } = pen;
    context.strokeStyle = pen.color("--ink-faint");
    context.lineWidth = 1;
    line(context, options.hover.x - kMargin.left, 0, options.hover.x - kMargin.left, pen.height);
  }
}

function drawCursor(pen: Pen, entry: number, style: { name: string; dash: number[] }): void {
  const { context } = pen;
  const x = Math.round(pen.scale.mark(entry)) + 0.5;
  context.strokeStyle = context.fillStyle = pen.color("--cursor");
  context.lineWidth = 1.5;
  context.setLineDash(style.dash);
  line(context, x, -4, x, pen.height);
  context.setLineDash([]);
  context.textAlign = "center";
  if (style.name) context.fillText(style.name, x, -14);
  else context.fillRect(x - 3, -8, 6, 6);
}

function drawBox(pen: Pen, box: { x: number; y: number; width: number; height: number }): void {
  const { context } = pen;
  const [x, y] = [box.x - kMargin.left, box.y - kMargin.top];
  context.fillStyle = pen.color("--box");
  context.strokeStyle = pen.color("--accent");
  context.lineWidth = 1;
  context.fillRect(x, y, box.width, box.height);
  context.strokeRect(x + 0.5, y + 0.5, box.width, box.height);
}
