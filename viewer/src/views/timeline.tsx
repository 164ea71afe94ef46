// SPDX-License-Identifier: Apache-2.0
//
// The timeline of live memory: controls, tooltip, and the handling of wheel, pointer and keys. The
// drawing is in draw/timeline_chart.ts.
import { computed, effect, signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { kGroupings, kNone, type Tile } from "../api/scene.ts";
import { TimelineChart } from "../draw/timeline_chart.ts";
import { kMargin } from "../draw/timeline_options.ts";
import type { Key } from "../keys.ts";
import { fade, kNeutral, type Rgb, shade } from "../model/colors.ts";
import { formatBytes, formatCount, formatEntries } from "../model/format.ts";
import { truncationNote } from "../model/annotations.ts";
import { panSpan, type Span, wholeSpan, zoomSpan } from "../model/tiles.ts";
import { selectedPool, selectedStack, selectedStream } from "../selection_details.ts";
import {
  client,
  coloring,
  moment,
  moveCursor,
  notice,
  otherMoment,
  shown,
  shownSpan,
} from "../session.ts";
import {
  compareCursor,
  documentNumber,
  grouping,
  kAllBytes,
  select,
  selection,
  span,
  vertical,
} from "../state.ts";
import { theme } from "../theme.ts";
import { type HoverTarget, TimelineHover } from "./timeline_hover.tsx";
import { listenTo, useViewChart } from "./use_chart.ts";

// The canvas of the rectangles covers the plot only; the overlay also covers the axes.
const kPlotPlace = {
  left: `${kMargin.left}px`,
  top: `${kMargin.top}px`,
  width: `calc(100% - ${kMargin.left + kMargin.right}px)`,
  height: `calc(100% - ${kMargin.top + kMargin.bottom}px)`,
};
const kZoomStep = 1.5;
const kPanStep = 0.2; // share of the visible span
const kDragSlack = 4; // pixels of movement that still count as a click

const hover = signal<HoverTarget | null>(null);
// Whether a self-contained file has no finer tiles than those drawn.
const isCoarse = signal(false);

const shownBytes = computed(() => {
  const document = shown.value!;
  const most = 1.06 * Math.max(1, document.reserved_peak.reserved, document.peak.requested);
  const { magnified, floor } = vertical.value;
  return { from: floor, to: floor + most / magnified };
});

// The function is replaced only when colours change, because the chart compares functions by
// identity.
const colorOf = computed(() => {
  const colors = coloring.value;
  const now = theme.value;
  const chosen = selection.value;
  const groups = {
    stack: selectedStack.value,
    stream: selectedStream.value,
    pool: selectedPool.value,
  };
  return (tile: Tile, row: number): Rgb => {
    if (row === kNone) return chosen ? fade(kNeutral[now], now) : kNeutral[now];
    if (tile.by !== "allocation") {
      const group = tile.group[row];
      const color = (tile.by === "stack" ? colors.stack : colors.other).of(group, now);
      const selectedGroup = groups[tile.by];
      return selectedGroup !== null && selectedGroup !== group ? fade(color, now) : color;
    }
    const { id, stack, stream, pool } = tile.rows;
    const by = colors.ofAllocation(id[row], stack[row]);
    const color = shade(by.coloring.of(by.id, now), id[row]);
    if (!chosen) return color;
    const rowId = { allocation: id, stack, stream, pool }[chosen.kind][row];
    return rowId === chosen.id ? color : fade(color, now);
  };
});

export function TimelineView() {
  const host = useRef<HTMLDivElement>(null);
  const below = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  useViewChart(host, {
    make: (place) =>
      new TimelineChart(place, below.current!, above.current!, {
        onError: showError,
        onCoarse: (coarse) => (isCoarse.value = coarse),
      }),
    resized: (chart) => chart.redraw(),
    follow,
    listen,
    keys: kKeys,
    release: (chart) => chart.release(),
  });
  const leftOut = truncationNote(shown.value!);
  return (
    <>
      <Controls />
      {!shown.value!.has_history && (
        <p class="note" data-no-history>
          This file contains no trace, only the final state. Call{" "}
          <code>torch.cuda.memory._record_memory_history()</code> before the run to record one.
        </p>
      )}
      {isCoarse.value && (
        <p class="note" data-coarse>
          This file contains no finer detail; <code>ashlar view</code> on the snapshot does.
        </p>
      )}
      {leftOut && <p class="note">{leftOut}</p>}
      <div class="timeline" ref={host}>
        <canvas class="below" ref={below} style={kPlotPlace} />
        <canvas class="above" ref={above} role="img" aria-label={description()} />
        {hover.value && <TimelineHover {...hover.value} />}
      </div>
    </>
  );
}

// Returns the text alternative of the chart.
function description(): string {
  const { entries, peak, reserved_peak } = shown.value!;
  return (
    `Live memory over ${formatEntries(entries)}, stacked by ${grouping.value}: ` +
    `peak ${formatBytes(peak.requested)} requested, at entry ${formatCount(peak.entry)}, and ` +
    `${formatBytes(reserved_peak.reserved)} reserved`
  );
}

let shownError: string | null = null; // set by this view, which clears only its own message

function showError(message: string | null): void {
  if (message !== null || (shownError !== null && notice.value === shownError))
    notice.value = message;
  shownError = message;
}

function Controls() {
  return (
    <div class="controls">
      <div class="choice" role="group" aria-label="Stacked by">
        <span>Stacked by</span>
        {kGroupings.map((name) => (
          <button
            type="button"
            key={name}
            aria-pressed={grouping.value === name}
            onClick={() => (grouping.value = name)}
          >
            {name}
          </button>
        ))}
      </div>
      <span class="grow" />
      <span class="legend">
        <i class="line reserved" /> reserved <i class="line requested" /> requested{" "}
        <i class="line bound" /> lower bound <i class="swatch neutral" />{" "}
        {grouping.value === "allocation" ? "small, merged" : "others"}
      </span>
      <button
        type="button"
        disabled={span.value === null && vertical.value.magnified === 1}
        onClick={showEverything}
        title="Show everything (key 0)"
      >
        Fit
      </button>
    </div>
  );
}

function follow(chart: TimelineChart): () => void {
  return effect(() => {
    if (!shown.value || !client.value) return;
    chart.show({
      client: client.value,
      number: documentNumber.value,
      document: shown.value,
      by: grouping.value,
      span: shownSpan.value,
      bytes: shownBytes.value,
      cursor: moment.value,
      other: otherMoment.value,
      hover: hover.value,
      colorOf: colorOf.value,
    });
  });
}

function listen(host: HTMLElement, chart: TimelineChart): () => void {
  let drag: { x: number; y: number; span: Span; floor: number; moved: boolean } | null = null;
  const place = (event: MouseEvent) => {
    const box = host.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const over = (event: MouseEvent) => {
    const at = place(event);
    hover.value = { ...at, found: chart.hitAt(at.x, at.y), mark: chart.markAt(at.x, at.y) };
  };
  const events = {
    wheel: (event: WheelEvent) => {
      event.preventDefault();
      const at = place(event);
      const factor = Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 300);
      if (event.altKey || event.ctrlKey) magnify(1 / factor, chart.bytesAt(at.y));
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        pan(((event.deltaX || event.deltaY) / chart.plotWidth()) * length());
      } else zoom(factor, chart.entryAt(at.x));
      over(event);
    },
    pointerdown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      host.setPointerCapture(event.pointerId);
      const { floor } = vertical.value;
      drag = { ...place(event), span: shownSpan.value, floor, moved: false };
    },
    pointermove: (event: PointerEvent) => {
      if (!drag) return over(event);
      const at = place(event);
      drag.moved ||= Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > kDragSlack;
      if (!drag.moved) return;
      hover.value = null;
      const entries = ((drag.x - at.x) / chart.plotWidth()) * (drag.span.to - drag.span.from);
      setSpan(panSpan(shown.value!, drag.span, entries));
      const bytes = shownBytes.value;
      lift(drag.floor + ((at.y - drag.y) / chart.plotHeight()) * (bytes.to - bytes.from));
    },
    pointerup: (event: PointerEvent) => {
      if (drag && !drag.moved) click(chart, place(event), event.altKey);
      drag = null;
    },
    pointerleave: () => (hover.value = null),
    dblclick: (event: MouseEvent) => zoom(1 / kZoomStep ** 3, chart.entryAt(place(event).x)),
  };
  const end = listenTo(host, events);
  return () => {
    hover.value = null;
    end();
  };
}

// A click sets the cursor and selects the item; with Alt it sets the compared moment only.
function click(chart: TimelineChart, at: { x: number; y: number }, alt: boolean): void {
  const found = chart.hitAt(at.x, at.y);
  if (!found) return;
  if (alt) {
    compareCursor.value = found.entry;
    return;
  }
  moveCursor(found.entry);
  const { tile, row } = found;
  if (row < 0 || row === kNone) selection.value = null;
  else if (tile.by === "allocation") select("allocation", tile.rows.id[row]);
  else if (tile.group[row] !== kNone) select(tile.by, tile.group[row]);
}

function length(): number {
  return shownSpan.value.to - shownSpan.value.from;
}

function setSpan(next: Span): void {
  const everything = wholeSpan(shown.value!);
  span.value = next.from <= everything.from && next.to >= everything.to ? null : next;
}

function zoom(factor: number, around: number): void {
  setSpan(zoomSpan(shown.value!, shownSpan.value, { around, factor }));
}

function pan(entries: number): void {
  setSpan(panSpan(shown.value!, shownSpan.value, entries));
}

// Zooms vertically such that `around`, in bytes, keeps its position on the screen.
function magnify(factor: number, around: number): void {
  const { magnified, floor } = vertical.value;
  const next = Math.min(1024, Math.max(1, magnified * factor));
  vertical.value = { magnified: next, floor };
  lift(around - (around - floor) * (magnified / next));
}

function lift(floor: number): void {
  const { magnified } = vertical.value;
  const high = shownBytes.value.to - shownBytes.value.from;
  vertical.value = { magnified, floor: Math.min(Math.max(0, floor), high * (magnified - 1)) };
}

function showEverything(): void {
  span.value = null;
  vertical.value = kAllBytes;
}

// Keys zoom around the cursor if it is visible, otherwise around the middle.
function zoomByKey(factor: number): void {
  const { from, to } = shownSpan.value;
  const inside = moment.value >= from && moment.value <= to;
  zoom(factor, inside ? moment.value : (from + to) / 2);
}

const kKeys: Key[] = [
  { keys: ["ArrowUp", "+", "="], description: "zoom in", run: () => zoomByKey(1 / kZoomStep) },
  { keys: ["ArrowDown", "-"], description: "zoom out", run: () => zoomByKey(kZoomStep) },
  {
    keys: ["ArrowLeft", "ArrowRight"],
    description: "pan",
    run: (key) => pan((key === "ArrowLeft" ? -kPanStep : kPanStep) * length()),
  },
  {
    keys: ["Shift+ArrowUp", "Shift+ArrowDown"],
    description: "zoom vertically (also Alt + wheel)",
    run: (key) =>
      magnify(key === "Shift+ArrowUp" ? kZoomStep : 1 / kZoomStep, vertical.value.floor),
  },
  { keys: ["0"], description: "show everything", run: showEverything },
];
