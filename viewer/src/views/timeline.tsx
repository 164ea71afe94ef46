// SPDX-License-Identifier: Apache-2.0
//
// The timeline of live memory: controls, regions, chart and tooltip. The drawing is in
// draw/timeline_chart.ts, the gestures in timeline_gestures.ts.
import { computed, effect, signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { TimelineChart } from "../draw/timeline_chart.ts";
import { kMargin } from "../draw/timeline_options.ts";
import { truncationNote } from "../model/annotations.ts";
import { kAxisKinds } from "../model/axis.ts";
import { formatBytes, formatCount, formatEntries } from "../model/format.ts";
import { rangesOf } from "../model/regions.ts";
import {
  axis,
  client,
  coloring,
  groupings,
  hasCategories,
  hasTimes,
  moment,
  notice,
  otherMoment,
  shown,
  shownSpan,
} from "../session.ts";
import {
  axisKind,
  colorBy,
  documentNumber,
  grouping,
  kColorings,
  span,
  vertical,
} from "../state.ts";
import { Choice } from "./choice.tsx";
import { Regions } from "./regions.tsx";
import { colorOf } from "./timeline_colors.ts";
import {
  hover,
  kTimelineKeys,
  listen,
  showEverything,
  shownBytes,
  zoomBox,
} from "./timeline_gestures.ts";
import { TimelineHover } from "./timeline_hover.tsx";
import { useViewChart } from "./use_chart.ts";

// The canvas of the rectangles covers the plot only; the overlay also covers the axes.
const kPlotPlace = {
  left: `${kMargin.left}px`,
  top: `${kMargin.top}px`,
  width: `calc(100% - ${kMargin.left + kMargin.right}px)`,
  height: `calc(100% - ${kMargin.top + kMargin.bottom}px)`,
};

// Whether a self-contained file has no finer tiles than those drawn.
const isCoarse = signal(false);

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
    keys: kTimelineKeys,
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
      <Regions />
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

let shownError: string | null = null; // the error that this view shows; it clears no other notice

function showError(message: string | null): void {
  if (message !== null || (shownError !== null && notice.value === shownError))
    notice.value = message;
  shownError = message;
}

function Controls() {
  return (
    <div class="controls">
      <Choice title="Stacked by" of={grouping} choices={groupings.value} />
      {grouping.value === "allocation" && hasCategories.value && (
        <Choice title="Colour" of={colorBy} choices={kColorings} />
      )}
      {hasTimes.value && <Choice title="Axis" of={axisKind} choices={kAxisKinds} />}
      <span class="grow" />
      <span class="together">
        <span class="legend">
          <i class="line reserved" /> reserved <i class="line requested" /> requested{" "}
          <i class="line bound" /> lower bound
        </span>
        <button
          type="button"
          disabled={span.value === null && vertical.value.magnified === 1}
          onClick={showEverything}
          title="Show everything (key 0)"
        >
          Fit
        </button>
      </span>
    </div>
  );
}

const marks = computed(() => rangesOf(shown.value!).single);

function follow(chart: TimelineChart): () => void {
  return effect(() => {
    if (!shown.value || !client.value) return;
    chart.show({
      client: client.value,
      number: documentNumber.value,
      document: shown.value,
      by: grouping.value,
      axis: axis.value,
      span: shownSpan.value,
      bytes: shownBytes.value,
      cursor: moment.value,
      other: otherMoment.value,
      hover: hover.value,
      marks: marks.value,
      box: zoomBox.value,
      smallBy: coloring.value.by,
      colorOf: colorOf.value,
    });
  });
}
