// SPDX-License-Identifier: Apache-2.0
//
// Segments and their blocks at the current moment, and what pins the chosen segment.
import { computed, effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type AddressMap, BlockState, kNone } from "../api/scene.ts";
import { MapChart, type MapPlace } from "../draw/map_chart.ts";
import { Fill } from "../draw/quad_painter.ts";
import { type Key, largeStep } from "../keys.ts";
import { fade, kNeutral, packColor, shade } from "../model/colors.ts";
import { hasExtents } from "../model/extents.ts";
import { formatCount } from "../model/format.ts";
import { client, coloring, hasCategories, moment, shown, stepCursor } from "../session.ts";
import {
  category,
  colorBy,
  documentNumber,
  kColorings,
  kMostMapZoom,
  kWholeMap,
  mapWindow,
  select,
  selection,
} from "../state.ts";
import { theme } from "../theme.ts";
import { Choice } from "./choice.tsx";
import { ExtentDetails } from "./extent_details.tsx";
import { MapHover, SegmentDetails } from "./segment_details.tsx";
import { useRequest } from "./use_request.ts";
import { listenTo, useViewChart } from "./use_chart.ts";

const map = signal<AddressMap | null>(null);
const segmentAddress = signal<bigint | null>(null); // kept when the moment changes
const extentId = signal<bigint | null>(null); // kept when the moment changes
const hover = signal<({ x: number; y: number } & MapPlace) | null>(null);

const chosenSegment = computed(() => {
  const at = map.value?.segment_address.findIndex((address) => address === segmentAddress.value);
  return at === undefined || at < 0 ? null : at;
});

const chosenExtent = computed(() => {
  const at = map.value?.extent_id.findIndex((id) => id === extentId.value);
  return at === undefined || at < 0 ? null : at;
});

// The function is replaced only when colours change, because the chart compares functions by
// identity.
const colorOf = computed(() => {
  const now = theme.value;
  const chosen = selection.value;
  const colors = coloring.value;
  const neutral = kNeutral[now];
  const only = category.value;
  const isAll = !chosen && only === null;
  return (of: AddressMap, block: number): number => {
    const state = of.block_state[block];
    if (state === BlockState.free) return packColor(neutral, Fill.hatched);
    if (state === BlockState.unmapped) return packColor(neutral, Fill.dotted);
    if (state === BlockState.merged) return packColor(isAll ? neutral : fade(neutral, now));
    const itsCategory = of.block_category[block];
    const by = colors.ofAllocation(of.block_allocation[block], of.block_stack[block], itsCategory);
    const color = shade(by.coloring.of(by.id, now), of.block_allocation[block]);
    const fill = state === BlockState.pending ? Fill.hatched : Fill.plain;
    const isFaded =
      (chosen !== null && !belongs(of, block)) || (only !== null && itsCategory !== only);
    return packColor(isFaded ? fade(color, now) : color, fill);
  };
});

export function AddressMapView() {
  const number = documentNumber.value;
  const at = moment.value;
  const response = useRequest(() => client.peek()!.map(number, at), `${number} ${at}`);
  useEffect(() => {
    map.value = response.value;
  }, [response.value]);
  return (
    <>
      <Controls />
      <Chart />
      {response.error && <p class="empty">{response.error}</p>}
      <SegmentDetails map={map.value} segment={chosenSegment.value}>
        {map.value && chosenExtent.value !== null && (
          <ExtentDetails map={map.value} extent={chosenExtent.value} />
        )}
      </SegmentDetails>
    </>
  );
}

function Controls() {
  return (
    <div class="controls">
      {hasCategories.value && <Choice title="Colour" of={colorBy} choices={kColorings} />}
      <span class="legend">
        <i class="swatch live" /> allocated <i class="swatch pending" /> pending free{" "}
        <i class="swatch free" /> free <i class="swatch neutral" /> small blocks, merged{" "}
        <i class="swatch unmapped" /> not mapped
        {map.value && hasExtents(map.value) && (
          <>
            {" "}
            <i class="swatch home" /> extent in use here <i class="swatch away" /> in use elsewhere
          </>
        )}
      </span>
      <span class="grow" />
      <button
        type="button"
        onClick={() => magnify(1 / 1.5)}
        disabled={mapWindow.value.zoom <= 1}
        title="Key -"
      >
        −
      </button>
      <button type="button" onClick={() => magnify(1.5)} title="Key +">
        +
      </button>
    </div>
  );
}

function Chart() {
  const host = useRef<HTMLDivElement>(null);
  const spacer = useRef<HTMLDivElement>(null);
  const below = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  useViewChart(host, {
    make: (place) => new MapChart(place, spacer.current!, below.current!, above.current!),
    resized: (chart) => chart.drawSoon(),
    follow,
    listen,
    keys: kKeys,
    release: (chart) => {
      chart.release();
      map.value = null;
    },
  });
  return (
    <div class="map" ref={host}>
      <div class="window">
        <canvas class="below" ref={below} />
        <canvas
          class="above"
          ref={above}
          role="img"
          aria-label={`Segments and their blocks at entry ${formatCount(moment.value)}`}
        />
      </div>
      <div ref={spacer} />
      {hover.value && map.value && <MapHover map={map.value} {...hover.value} />}
    </div>
  );
}

function follow(chart: MapChart): () => void {
  return effect(() => {
    if (!map.value || !shown.value) return;
    selection.value; // subscribes: `isSelected` below depends on it, but only peeks
    chart.show({
      map: map.value,
      ...mapWindow.value,
      pools: shown.value.pools,
      segment: chosenSegment.value,
      extent: chosenExtent.value,
      colorOf: colorOf.value,
      isSelected: (of, block) => selection.peek()?.kind === "allocation" && belongs(of, block),
    });
  });
}

function listen(host: HTMLElement, chart: MapChart): () => void {
  const find = (event: MouseEvent) => {
    const box = host.getBoundingClientRect();
    const place = { x: event.clientX - box.left, y: event.clientY - box.top };
    const found = chart.placeAt(place.x, place.y);
    return found && { ...place, ...found };
  };
  const events = {
    scroll: () => {
      mapWindow.value = { ...mapWindow.value, top: chart.scrolledTop() };
      chart.drawSoon();
    },
    wheel: (event: WheelEvent) => {
      if (!event.altKey && !event.ctrlKey) return;
      event.preventDefault();
      magnify(Math.exp(-event.deltaY / 300));
    },
    pointermove: (event: PointerEvent) => (hover.value = find(event)),
    pointerleave: () => (hover.value = null),
    click: (event: MouseEvent) => click(find(event)),
  };
  const end = listenTo(host, events);
  return () => {
    hover.value = null;
    end();
  };
}

// A click chooses the segment and the extent; on an allocation's block, it also selects the
// allocation.
function click(found: MapPlace | null): void {
  const of = map.value;
  if (!of) return;
  const isSegment = found !== null && found.segment !== kNone;
  segmentAddress.value = isSegment ? of.segment_address[found.segment] : null;
  extentId.value = found && found.extent !== kNone ? of.extent_id[found.extent] : null;
  const allocation = isSegment ? of.block_allocation[found.block] : kNone;
  if (allocation !== kNone) select("allocation", allocation);
}

function belongs(of: AddressMap, block: number): boolean {
  const chosen = selection.peek();
  if (!chosen) return false;
  if (chosen.kind === "allocation") return of.block_allocation[block] === chosen.id;
  if (chosen.kind === "stack") return of.block_stack[block] === chosen.id;
  const segment = segmentOfBlock(of, block);
  return (chosen.kind === "stream" ? of.segment_stream : of.segment_pool)[segment] === chosen.id;
}

function segmentOfBlock(of: AddressMap, block: number): number {
  let [low, high] = [0, of.segment_bytes.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (of.segment_first[middle] <= block) low = middle;
    else high = middle;
  }
  return low;
}

function magnify(factor: number): void {
  const { zoom, top } = mapWindow.value;
  mapWindow.value = { zoom: Math.min(kMostMapZoom, Math.max(1, zoom * factor)), top };
}

const kKeys: Key[] = [
  {
    keys: ["ArrowLeft", "ArrowRight"],
    description: "previous, next entry",
    run: (key) => stepCursor(key === "ArrowLeft" ? -1 : 1),
  },
  {
    keys: ["Shift+ArrowLeft", "Shift+ArrowRight"],
    description: "1 % of the trace back, forward",
    run: (key) => stepCursor((key === "Shift+ArrowLeft" ? -1 : 1) * largeStep()),
  },
  { keys: ["+", "="], description: "zoom in (also Alt + wheel)", run: () => magnify(1.5) },
  { keys: ["-"], description: "zoom out", run: () => magnify(1 / 1.5) },
  {
    keys: ["0"],
    description: "fit everything on one page",
    run: () => (mapWindow.value = kWholeMap),
  },
];
