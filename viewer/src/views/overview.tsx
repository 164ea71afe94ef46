// SPDX-License-Identifier: Apache-2.0
//
// The strip above every view: the whole run, the cursor, and the span of the timeline. Clicking or
// dragging moves the cursor.
import { useRef } from "preact/hooks";
import type { DocumentScene, TileColumns } from "../api/scene.ts";
import { formatCount } from "../model/format.ts";
import { isCommand, largeStep } from "../keys.ts";
import {
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

// Returns the tile of the whole run, grouped by pool to keep the response small.
export function useWholeTile(number: number): TileColumns | null {
  const ask = client.value;
  return useRequest(
    ask && (() => ask.tile({ document: number, by: "pool", level: 0, index: 0, detail: 0 })),
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
    moveCursor(Math.floor(((event.clientX - box.left) / box.width) * document.entries));
  };
  return (
    <svg
      class="overview"
      ref={strip}
      viewBox={`0 0 ${document.entries} ${kHeight}`}
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
          <rect class="outside" x={0} width={shownSpan.value.from} y={0} height={kHeight} />
          <rect
            class="outside"
            x={shownSpan.value.to}
            width={Math.max(0, document.entries - shownSpan.value.to)}
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
  const x = props.at + 0.5;
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

function area(document: DocumentScene, values: Float64Array, most: number): string {
  const wide = 2 ** (document.levels - 1); // entries per column of level 0
  let path = `M0 ${kHeight}`;
  values.forEach((value, column) => {
    path += `V${(kHeight - (value / most) * (kHeight - 2)).toFixed(2)}`;
    path += `H${Math.min((column + 1) * wide, document.entries)}`;
  });
  return `${path}V${kHeight}Z`;
}
