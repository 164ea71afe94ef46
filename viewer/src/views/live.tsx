// SPDX-License-Identifier: Apache-2.0
//
// The live view of a process: recent memory curves, current statistics, and a button to take a
// snapshot for the other views.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { LiveAllocator, LiveHostAllocator, LiveMemory, LiveStats } from "../api/scene.ts";
import { samples, takeSnapshot, liveError } from "../live.ts";
import { cssColor, kPalette } from "../model/colors.ts";
import { formatBytes, formatCount } from "../model/format.ts";
import { type Counter, type LiveSample, ratePerSecond, totalBytes } from "../model/live.ts";
import { scene, waiting } from "../session.ts";
import { view } from "../state.ts";
import { theme } from "../theme.ts";
import { byteAxis, curveOptions } from "./curves.ts";
import { watchSize } from "./use_chart.ts";

const kBytesHeight = 280;
const kCallsHeight = 150;

export function LiveView() {
  if (!scene.value?.live) {
    return (
      <p class="empty">
        No process is monitored. Run <code>ashlar view --live PID</code>.
      </p>
    );
  }
  return (
    <div class="report live" data-samples={samples.value.length}>
      <Bar />
      {liveError.value && (
        <p class="note" role="status" data-over={liveError.value.hasEnded}>
          {liveError.value.message}
          {liveError.value.hasEnded && ". Its data remains available."}
        </p>
      )}
      <Numbers />
      <Curves />
    </div>
  );
}

function Bar() {
  const isOver = liveError.value?.hasEnded ?? false;
  return (
    <div class="live-bar">
      <strong>{scene.value!.live}</strong>
      <button
        type="button"
        class="button"
        disabled={isOver || waiting.value !== null}
        title="Take a snapshot and open it in the other views"
        onClick={async () => {
          if (await takeSnapshot()) view.value = "map";
        }}
      >
        Take a snapshot now
      </button>
    </div>
  );
}

function Curves() {
  const bytes = useCurves(bytesOptions, bytesData);
  const calls = useCurves(callsOptions, callsData);
  return (
    <section>
      <h2>Memory</h2>
      <div class="curves" ref={bytes} />
      <h2>Driver calls per second</h2>
      <div class="curves" ref={calls} />
    </section>
  );
}

// A chart that is created once per theme and number of lines, and updated with each sample.
function useCurves(
  options: (host: HTMLElement) => uPlot.Options,
  data: (samples: LiveSample[]) => uPlot.AlignedData,
) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const now = theme.value;
  const lines = hasPinned(samples.value);
  useEffect(() => {
    const made = new uPlot(options(host.current!), data(samples.peek()), host.current!);
    chart.current = made;
    const unwatch = watchSize(host.current!, () =>
      made.setSize({ width: host.current!.clientWidth, height: made.height }),
    );
    return () => {
      unwatch();
      made.destroy();
      chart.current = null;
    };
  }, [now, lines]);
  const shown = samples.value;
  useEffect(() => chart.current?.setData(data(shown)), [shown]);
  return host;
}

// Seconds relative to the last sample.
function ages(of: LiveSample[]): number[] {
  const last = of.at(-1)?.at ?? 0;
  return of.map((each) => each.at - last);
}

const kTime = {
  label: "seconds",
  range: (_: uPlot, from: number | null): [number, number] => [Math.min(from ?? 0, -60), 0],
  value: (at: number) => (at === 0 ? "now" : `${Math.round(at)} s`),
};

type Line = [label: string, color: number, of: (stats: LiveStats) => number];
const kLines: Line[] = [
  ["reserved", 5, (stats) => totalBytes(stats.allocators, "reserved_bytes")],
  ["allocated", 2, (stats) => totalBytes(stats.allocators, "allocated_bytes")],
  ["active", 3, (stats) => totalBytes(stats.allocators, "active_bytes")],
  ["requested", 4, (stats) => totalBytes(stats.allocators, "requested_bytes")],
];
const kPinnedLine: Line = [
  "pinned host memory",
  0,
  (stats) => totalBytes(stats.host_allocators, "reserved_bytes"),
];

function hasPinned(of: LiveSample[]): boolean {
  return of.some((each) => each.stats.host_allocators.length > 0);
}

function linesOf(of: LiveSample[]): Line[] {
  return hasPinned(of) ? [...kLines, kPinnedLine] : kLines;
}

function bytesOptions(host: HTMLElement): uPlot.Options {
  return curveOptions(host, {
    height: kBytesHeight,
    x: kTime,
    y: byteAxis(),
    series: linesOf(samples.peek()).map(([label, color]) => ({
      label,
      stroke: cssColor(kPalette[color]),
      width: 2,
      value: (_, value) => (value === null ? "" : formatBytes(value)),
    })),
  });
}

function bytesData(of: LiveSample[]): uPlot.AlignedData {
  return [ages(of), ...linesOf(of).map(([, , bytes]) => of.map((each) => bytes(each.stats)))];
}

function callsOptions(host: HTMLElement): uPlot.Options {
  return curveOptions(host, {
    height: kCallsHeight,
    x: kTime,
    y: { values: (_, values) => values.map((value) => formatCount(value)) },
    series: [
      {
        label: "driver calls",
        stroke: cssColor(kPalette[5]),
        width: 2,
        value: (_, value) => (value === null ? "" : value.toFixed(1)),
      },
    ],
  });
}

function callsData(of: LiveSample[]): uPlot.AlignedData {
  return [ages(of), of.map((each, i) => ratePerSecond(of[i - 1], each, kDeviceCalls))];
}

const allocatorsOf = (stats: LiveStats) => stats.allocators;
const hostAllocatorsOf = (stats: LiveStats) => stats.host_allocators;
const kDeviceCalls = {
  allocators: allocatorsOf,
  value: (each: LiveAllocator) => each.device_calls,
};
const kHostCalls = {
  allocators: hostAllocatorsOf,
  value: (each: LiveHostAllocator) => each.host_calls,
};

interface Rates {
  allocations: string;
  calls: string;
}

const kColumns: [title: string, of: (allocator: LiveMemory, rates: Rates) => string][] = [
  ["reserved", (each) => formatBytes(each.reserved_bytes)],
  ["peak", (each) => formatBytes(each.reserved_peak_bytes)],
  ["active", (each) => formatBytes(each.active_bytes)],
  ["allocated", (each) => formatBytes(each.allocated_bytes)],
  ["requested", (each) => formatBytes(each.requested_bytes)],
  ["blocks", (each) => formatCount(each.blocks)],
  ["allocations/s", (_, rates) => rates.allocations],
  ["driver calls/s", (_, rates) => rates.calls],
  ["retries", (each) => formatCount(each.retries)],
  ["ooms", (each) => formatCount(each.ooms)],
];

function rateOf<Kind extends LiveMemory>(number: number, counter: Counter<Kind>): string {
  const all = samples.value;
  const rate = ratePerSecond(all.at(-2), all.at(-1)!, counter, number);
  return rate === null ? "–" : rate < 1000 ? rate.toFixed(1) : formatCount(Math.round(rate));
}

function Numbers() {
  const last = samples.value.at(-1);
  if (!last) return <p class="empty">Connecting to the process …</p>;
  return (
    <section>
      <h2>Current</h2>
      <table class="live-numbers">
        <thead>
          <tr>
            <th>allocator</th>
            {kColumns.map(([title]) => (
              <th key={title}>{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {last.stats.allocators.map((each) => (
            <Row
              key={each.number}
              name={String(each.number)}
              kind={each.is_history_on ? `${each.engine}, recording` : each.engine}
              stats={each}
              calls={kDeviceCalls}
            />
          ))}
          {last.stats.host_allocators.map((each) => (
            <Row
              key={`h${each.number}`}
              name={`h${each.number}`}
              kind="pinned host memory"
              stats={each}
              calls={kHostCalls}
            />
          ))}
        </tbody>
      </table>
      {last.stats.setup_error && <p class="note">{last.stats.setup_error}</p>}
    </section>
  );
}

function Row<Kind extends LiveMemory>(props: {
  name: string;
  kind: string;
  stats: Kind;
  calls: Counter<Kind>;
}) {
  const rates: Rates = {
    allocations: rateOf(props.stats.number, {
      allocators: props.calls.allocators,
      value: (each) => each.allocations,
    }),
    calls: rateOf(props.stats.number, props.calls),
  };
  return (
    <tr>
      <td title={props.stats.device_name}>
        {props.name}: {props.stats.backend}:{props.stats.device}, {props.kind}
      </td>
      {kColumns.map(([title, text]) => (
        <td key={title}>{text(props.stats, rates)}</td>
      ))}
    </tr>
  );
}
