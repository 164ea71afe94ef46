// SPDX-License-Identifier: Apache-2.0
//
// The strip above every view except the live view: the whole run, the cursor, and the span of the
// timeline. Clicking or dragging moves the cursor.
import { useRef } from "preact/hooks";
import type { DocumentScene, TileColumns } from "../api/scene.ts";
import { kMargin } from "../draw/timeline_options.ts";
import { formatCount } from "../model/format.ts";
import { isCommand, largeStep } from "../keys.ts";
import {
  axis,
  client,
  moment,
  moveCursor,
  otherMoment,
  shown,
  shownSpan,
  stepCursor,
} from "../session.ts";
import { documentNumber, span, view } from "../state.ts";
import { useRequest } from "./use_request.ts";

const kHeight = 48;
const kWidth = 10_000; // in units of the drawing
const kPlace = {
  marginLeft: `${kMargin.left}px`,
  width: `calc(100% - ${kMargin.left + kMargin.right}px)`,
};

// Returns the tile of the whole run, grouped by pool to keep the response small.
export function useWholeTile(number: number): TileColumns | null {
  const api = client.value;
  return useRequest(
    api && (() => api.tile({ document: number, by: "pool", level: 0, index: 0, detail: 0 })),
    `whole ${number}`,
  ).value;
}

export function Overview() {
  const document = shown.value!;
  const tile = useWholeTile(documentNumber.value);
  const strip = useRef<SVGSVGElement>(null);
  const move = (event: PointerEvent) => {
    if (event.buttons === 0 || !strip.current) return;
    const box = strip.current.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    moveCursor(Math.floor(axis.value.entry(share * axis.value.end)));
  };
  return (
    <svg
      class="overview"
      style={kPlace}
      ref={strip}
      viewBox={`0 0 ${kWidth} ${kHeight}`}
      preserveAspectRatio="none"
      role="slider"
      tabindex={0}
      onKeyDown={press}
      aria-label="Moment"
      aria-valuemin={0}
      aria-valuemax={document.entries - 1}
      aria-valuenow={moment.value}
      aria-valuetext={`entry ${formatCount(moment.value)}`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        move(event);
      }}
      onPointerMove={move}
    >
      {tile && <Memory document={document} tile={tile} />}
      {document.ooms.map((oom) => (
        <Mark key={oom.entry} at={oom.entry} class="oom" />
      ))}
      {view.value === "timeline" && span.value && (
        <>
          <rect class="outside" x={0} width={x(shownSpan.value.from)} y={0} height={kHeight} />
          <rect
            class="outside"
            x={x(shownSpan.value.to)}
            width={Math.max(0, kWidth - x(shownSpan.value.to))}
            y={0}
            height={kHeight}
          />
        </>
      )}
      {otherMoment.value !== null && <Mark at={otherMoment.value} class="other" />}
      <Mark at={moment.value} class="cursor" />
    </svg>
  );
}

// Keys of a slider: single steps, large steps, both ends.
function press(event: KeyboardEvent): void {
  const steps: Record<string, () => void> = {
    ArrowLeft: () => stepCursor(-1),
    ArrowDown: () => stepCursor(-1),
    ArrowRight: () => stepCursor(1),
    ArrowUp: () => stepCursor(1),
    PageDown: () => stepCursor(-largeStep()),
    PageUp: () => stepCursor(largeStep()),
    Home: () => moveCursor(0),
    End: () => moveCursor(Infinity),
  };
  if (isCommand(event) || !(event.key in steps)) return;
  event.preventDefault();
  steps[event.key]();
}

function Memory({ document, tile }: { document: DocumentScene; tile: TileColumns }) {
  const most = Math.max(1, document.reserved_peak.reserved, document.peak.requested);
  return (
    <>
      <path class="reserved" d={area(document, tile.reserved_high, most)} />
      <path class="requested" d={area(document, tile.requested, most)} />
      <path class="requested-low" d={area(document, tile.requested_low, most)} />
    </>
  );
}

function Mark(props: { at: number; class: string }) {
  const x = (axis.value.mark(props.at) / axis.value.end) * kWidth;
  return (
    <line
      class={props.class}
      x1={x}
      x2={x}
      y1={0}
      y2={kHeight}
      vector-effect="non-scaling-stroke"
    />
  );
}

// Returns the position of an entry. The strip has the axis and the margins of the timeline, so that
// it is aligned with the timeline.
function x(entry: number): number {
  return (axis.value.position(entry) / axis.value.end) * kWidth;
}

function area(document: DocumentScene, values: Float64Array, most: number): string {
  const columnEntries = 2 ** (document.levels - 1); // entries per column of level 0
  let path = `M0 ${kHeight}`;
  values.forEach((value, column) => {
    path += `V${(kHeight - (value / most) * (kHeight - 2)).toFixed(2)}`;
    path += `H${x(Math.min((column + 1) * columnEntries, document.entries)).toFixed(2)}`;
  });
  return `${path}V${kHeight}Z`;
}
