// SPDX-License-Identifier: Apache-2.0
//
// Iterations, phases and annotated ranges as spans above the timeline. A click zooms to a span.
import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import {
  drawRegions,
  kLaneHeight,
  type RegionOptions,
  regionUnder,
} from "../draw/regions_chart.ts";
import { spanBetween } from "../model/axis.ts";
import { formatCount, formatEntries } from "../model/format.ts";
import { lanesOf, type Region } from "../model/regions.ts";
import { axis, shown, shownSpan } from "../session.ts";
import { theme } from "../theme.ts";
import { setSpan } from "./timeline_gestures.ts";
import { besidePointer, watchSize } from "./use_chart.ts";
import { useAnalysis } from "./use_request.ts";

const width = signal(0); // of the element, in pixels
const hover = signal<{ x: number; y: number; region: Region } | null>(null);

export function Regions() {
  return shown.value!.has_history ? <Lanes /> : null;
}

function Lanes() {
  const document = shown.value!;
  const { value: training, error } = useAnalysis("training");
  const lanes = useMemo(() => lanesOf(document, training), [document, training]);
  return (
    <>
      {!training && error === null && <span hidden data-regions-loading />}
      {lanes.length > 0 && <Drawing lanes={lanes} />}
    </>
  );
}

function Drawing({ lanes }: { lanes: RegionOptions["lanes"] }) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const options = { lanes, axis: axis.value, span: shownSpan.value, theme: theme.value };
  useEffect(() => {
    const measure = () => (width.value = host.current!.clientWidth);
    measure();
    const unwatch = watchSize(host.current!, measure);
    return () => {
      unwatch();
      hover.value = null;
    };
  }, []);
  useEffect(() => drawRegions(canvas.current!, options, width.value));
  const find = (event: MouseEvent) => {
    const box = host.current!.getBoundingClientRect();
    const at = { x: event.clientX - box.left, y: event.clientY - box.top };
    const region = regionUnder(options, width.value, at);
    return region && { ...at, region };
  };
  return (
    <div
      class="regions"
      ref={host}
      data-lanes={lanes.map((lane) => lane.title).join(" ")}
      style={{ height: `${lanes.length * kLaneHeight}px` }}
      onPointerMove={(event) => (hover.value = find(event))}
      onPointerLeave={() => (hover.value = null)}
      onClick={(event) => zoomTo(find(event)?.region ?? null)}
    >
      <canvas ref={canvas} role="img" aria-label={lanes.map((lane) => lane.title).join(", ")} />
      {hover.value && width.value > 0 && <Tooltip host={host.current!} {...hover.value} />}
    </div>
  );
}

function Tooltip(props: { host: Element; x: number; y: number; region: Region }) {
  const { host, x, region } = props;
  const { left } = besidePointer(host, { x, y: 0 }, { width: 360, height: 0 });
  return (
    <div class="hover" style={{ left: `${left}px`, top: `${host.clientHeight + 4}px` }}>
      <p class="title" data-region>
        {region.name}
      </p>
      <p>
        {formatEntries(region.to - region.from)} from entry {formatCount(region.from)}
      </p>
    </div>
  );
}

function zoomTo(region: Region | null): void {
  if (!region) return;
  const { position } = axis.value;
  setSpan(spanBetween(axis.value, position(region.from), position(region.to)));
}
