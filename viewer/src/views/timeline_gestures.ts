// SPDX-License-Identifier: Apache-2.0
//
// Wheel, pointer and keys of the timeline. Gestures only change the state; the chart redraws itself
// when the state changes.
import { computed, signal } from "@preact/signals";
import { kNone } from "../api/scene.ts";
import type { TimelineChart } from "../draw/timeline_chart.ts";
import type { Key } from "../keys.ts";
import { panSpan, spanBetween, wholeSpan, zoomSpan } from "../model/axis.ts";
import type { Span } from "../model/tiles.ts";
import { axis, moment, moveCursor, shown, shownSpan } from "../session.ts";
import {
  category,
  compareCursor,
  kAllBytes,
  kMostMagnified,
  select,
  selection,
  span,
  vertical,
} from "../state.ts";
import type { HoverTarget } from "./timeline_hover.tsx";
import { listenTo } from "./use_chart.ts";

const kZoomStep = 1.5;
const kPanStep = 0.2; // share of the visible span
const kDragSlack = 4; // pixels of movement that still count as a click

interface Point {
  x: number;
  y: number;
}

export interface Box extends Point {
  width: number;
  height: number;
}

export const hover = signal<HoverTarget | null>(null);
export const zoomBox = signal<Box | null>(null); // set while the box is dragged

// The range of the vertical axis.
export const shownBytes = computed(() => {
  const { magnified, floor } = vertical.value;
  return { from: floor, to: floor + allBytes.value / magnified };
});
const allBytes = computed(() => {
  const { reserved_peak, peak } = shown.value!;
  return 1.06 * Math.max(1, reserved_peak.reserved, peak.requested);
});

export function listen(host: HTMLElement, chart: TimelineChart): () => void {
  const pointer = new Pointer(host, chart);
  const end = listenTo(host, {
    wheel: (event: WheelEvent) => pointer.wheel(event),
    pointerdown: (event: PointerEvent) => pointer.press(event),
    pointermove: (event: PointerEvent) => pointer.move(event),
    pointerup: (event: PointerEvent) => pointer.release(event),
    pointerleave: () => (hover.value = null),
    dblclick: (event: MouseEvent) => pointer.zoomIn(event),
  });
  return () => {
    hover.value = null;
    zoomBox.value = null;
    end();
  };
}

interface Drag extends Point {
  span: Span;
  floor: number;
  isBox: boolean; // Shift is held: the drag selects a box to zoom to
  moved: boolean;
}

class Pointer {
  private drag: Drag | null = null;

  constructor(
    private readonly host: HTMLElement,
    private readonly chart: TimelineChart,
  ) {}

  wheel(event: WheelEvent): void {
    event.preventDefault();
    const at = this.place(event);
    const factor = Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 300);
    if (event.altKey || event.ctrlKey) magnify(1 / factor, this.chart.bytesAt(at.y));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) / this.chart.plotWidth());
    } else zoom(factor, this.chart.positionAt(at.x));
    this.updateHover(event);
  }

  press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.host.setPointerCapture(event.pointerId);
    this.drag = {
      ...this.place(event),
      span: shownSpan.value,
      floor: vertical.value.floor,
      isBox: event.shiftKey,
      moved: false,
    };
  }

  move(event: PointerEvent): void {
    const { drag } = this;
    if (!drag) return this.updateHover(event);
    const at = this.place(event);
    drag.moved ||= Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > kDragSlack;
    if (!drag.moved) return;
    hover.value = null;
    if (drag.isBox) {
      zoomBox.value = boxOf(drag, at);
      return;
    }
    setSpan(panSpan(axis.value, drag.span, (drag.x - at.x) / this.chart.plotWidth()));
    const bytes = shownBytes.value;
    setFloor(drag.floor + ((at.y - drag.y) / this.chart.plotHeight()) * (bytes.to - bytes.from));
  }

  release(event: PointerEvent): void {
    if (zoomBox.value) this.zoomToBox(zoomBox.value);
    else if (this.drag && !this.drag.moved) this.click(this.place(event), event.altKey);
    this.drag = null;
    zoomBox.value = null;
  }

  zoomIn(event: MouseEvent): void {
    zoom(1 / kZoomStep ** 3, this.chart.positionAt(this.place(event).x));
  }

  private zoomToBox(box: Box): void {
    if (box.width <= kDragSlack || box.height <= kDragSlack) return;
    const { chart } = this;
    const [top, bottom] = [chart.bytesAt(box.y), chart.bytesAt(box.y + box.height)];
    setSpan(spanBetween(axis.value, chart.positionAt(box.x), chart.positionAt(box.x + box.width)));
    vertical.value = {
      magnified: Math.min(kMostMagnified, Math.max(1, allBytes.value / (top - bottom))),
      floor: 0,
    };
    setFloor(bottom);
  }

  // Sets the cursor and selects the item; with Alt, only sets the compared moment.
  private click(at: Point, alt: boolean): void {
    const found = this.chart.hitAt(at.x, at.y);
    if (!found) return;
    if (alt) {
      compareCursor.value = found.entry;
      return;
    }
    moveCursor(found.entry);
    const { tile, row } = found;
    if (tile.by === "allocation") {
      const id = row < 0 ? undefined : tile.rows.id[row];
      if (id === undefined) selection.value = null;
      else select("allocation", id);
    } else if (row < 0 || tile.group[row] === kNone) {
      selection.value = null;
    } else if (tile.by === "category") {
      toggleCategory(tile.group[row]);
    } else {
      select(tile.by, tile.group[row]);
    }
  }

  private updateHover(event: MouseEvent): void {
    const { chart } = this;
    const at = this.place(event);
    hover.value = { ...at, found: chart.hitAt(at.x, at.y), mark: chart.markAt(at.x, at.y) };
    pointedPosition = chart.positionAt(at.x);
  }

  private place(event: MouseEvent): Point {
    const box = this.host.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}

let pointedPosition = 0; // the position of the pointer on the axis, while hover is set

function boxOf(a: Point, b: Point): Box {
  const [x, y] = [Math.min(a.x, b.x), Math.min(a.y, b.y)];
  return { x, y, width: Math.abs(a.x - b.x), height: Math.abs(a.y - b.y) };
}

export function toggleCategory(number: number): void {
  category.value = category.value === number ? null : number;
}

export function setSpan(next: Span): void {
  const everything = wholeSpan(axis.value);
  span.value = next.from <= everything.from && next.to >= everything.to ? null : next;
}

function zoom(factor: number, around: number): void {
  setSpan(zoomSpan(axis.value, shownSpan.value, { around, factor }));
}

// Pans by a share of the visible span.
function pan(share: number): void {
  setSpan(panSpan(axis.value, shownSpan.value, share));
}

// Zooms vertically such that `around`, in bytes, keeps its position on the screen.
function magnify(factor: number, around: number): void {
  const { magnified, floor } = vertical.value;
  const next = Math.min(kMostMagnified, Math.max(1, magnified * factor));
  vertical.value = { magnified: next, floor };
  setFloor(around - (around - floor) * (magnified / next));
}

function setFloor(floor: number): void {
  const { magnified } = vertical.value;
  const height = shownBytes.value.to - shownBytes.value.from;
  vertical.value = { magnified, floor: Math.min(Math.max(0, floor), height * (magnified - 1)) };
}

export function showEverything(): void {
  span.value = null;
  vertical.value = kAllBytes;
}

// Keys zoom around the pointer or, if the pointer is outside the timeline, around the cursor. If
// that position is not visible, they zoom around the middle.
function zoomByKey(factor: number): void {
  const { from, to } = shownSpan.value;
  const [begin, end] = [axis.value.position(from), axis.value.position(to)];
  const at = hover.value ? pointedPosition : axis.value.mark(moment.value);
  zoom(factor, at >= begin && at <= end ? at : (begin + end) / 2);
}

export const kTimelineKeys: Key[] = [
  { keys: ["w", "ArrowUp", "+", "="], description: "zoom in", run: () => zoomByKey(1 / kZoomStep) },
  { keys: ["s", "ArrowDown", "-"], description: "zoom out", run: () => zoomByKey(kZoomStep) },
  { keys: ["a", "ArrowLeft"], description: "pan left", run: () => pan(-kPanStep) },
  { keys: ["d", "ArrowRight"], description: "pan right", run: () => pan(kPanStep) },
  {
    keys: ["Shift+ArrowUp", "Shift+ArrowDown"],
    description: "zoom vertically (also Alt + wheel)",
    run: (key) =>
      magnify(key === "Shift+ArrowUp" ? kZoomStep : 1 / kZoomStep, vertical.value.floor),
  },
  { keys: ["0"], description: "show everything", run: showEverything },
];
