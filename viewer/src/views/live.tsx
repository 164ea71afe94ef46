// A running process: its memory over the last minutes, its numbers now, and a snapshot of it for
// all other views.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { LiveAllocator } from "../ask/scene.ts";
import { samples, takeSnapshot, trouble } from "../live.ts";
import { cssColor, kPalette } from "../model/colors.ts";
import { formatBytes, formatCount } from "../model/format.ts";
import { type LiveSample, ratePerSecond, totalBytes } from "../model/live.ts";
import { scene, waiting } from "../session.ts";
import { view } from "../state.ts";
import { theme } from "../theme.ts";
import { byteAxis, curveOptions } from "./curves.ts";
import { watchSize } from "./use_chart.ts";

const kBytesHigh = 280;
const kCallsHigh = 150;

export function LiveView() {
  if (!scene.value?.live) {
    return (
      <p class="empty">
        Nothing is being watched. <code>ashlar view --live PID</code> watches a process, and{" "}
        <code>ashlar top</code> lists those that can be.
      </p>
    );
  }
  return (
    <div class="report live" data-samples={samples.value.length}>
      <Bar />
      {trouble.value && (
        <p class="note" role="status" data-over={trouble.value.isOver}>
          {trouble.value.says}
          {trouble.value.isOver && ". What was seen of it stays."}
        </p>
      )}
      <Numbers />
      <Curves />
    </div>
  );
}

function Bar() {
  const isOver = trouble.value?.isOver ?? false;
  return (
    <div class="live-bar">
      <strong>{scene.value!.live}</strong>
      <button
        type="button"
        class="button"
        disabled={isOver || waiting.value !== null}
        title="Opens what the process holds now in all other views"
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
      <h2>Calls of the driver, per second</h2>
      <div class="curves" ref={calls} />
    </section>
  );
}

// A chart that is made once for each theme, and given the samples as they come.
function useCurves(
  options: (host: HTMLElement) => uPlot.Options,
  data: (samples: LiveSample[]) => uPlot.AlignedData,
) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const now = theme.value;
  useEffect(() => {
    const made = new uPlot(options(host.current!), data(samples.peek()), host.current!);
    chart.current = made;
    const forget = watchSize(host.current!, () =>
      made.setSize({ width: host.current!.clientWidth, height: made.height }),
    );
    return () => {
      forget();
      made.destroy();
      chart.current = null;
    };
  }, [now]);
  const shown = samples.value;
  useEffect(() => chart.current?.setData(data(shown)), [shown]);
  return host;
}

// Seconds before the last look.
function ages(of: LiveSample[]): number[] {
  const last = of.at(-1)?.at ?? 0;
  return of.map((each) => each.at - last);
}

const kTime = {
  label: "seconds",
  range: (_: uPlot, from: number | null): [number, number] => [Math.min(from ?? 0, -60), 0],
  value: (at: number) => (at === 0 ? "now" : `${Math.round(at)} s`),
};

const kLines = [
  ["reserved", "reserved_bytes", 5],
  ["allocated", "allocated_bytes", 2],
  ["active", "active_bytes", 3],
  ["requested", "requested_bytes", 4],
] as const;

function bytesOptions(host: HTMLElement): uPlot.Options {
  return curveOptions(host, {
    high: kBytesHigh,
    x: kTime,
    y: byteAxis(),
    series: kLines.map(([label, , color]) => ({
      label,
      stroke: cssColor(kPalette[color]),
      width: 2,
      value: (_, value) => (value === null ? "" : formatBytes(value)),
    })),
  });
}

function bytesData(of: LiveSample[]): uPlot.AlignedData {
  return [ages(of), ...kLines.map(([, key]) => of.map((each) => totalBytes(each.numbers, key)))];
}

function callsOptions(host: HTMLElement): uPlot.Options {
  return curveOptions(host, {
    high: kCallsHigh,
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
  return [ages(of), of.map((each, i) => ratePerSecond(of[i - 1], each, "device_calls"))];
}

const kColumns: [title: string, of: (allocator: LiveAllocator) => string][] = [
  ["reserved", (each) => formatBytes(each.reserved_bytes)],
  ["peak", (each) => formatBytes(each.reserved_peak_bytes)],
  ["active", (each) => formatBytes(each.active_bytes)],
  ["allocated", (each) => formatBytes(each.allocated_bytes)],
  ["requested", (each) => formatBytes(each.requested_bytes)],
  ["blocks", (each) => formatCount(each.blocks)],
  ["allocations/s", (each) => rateOf(each, "allocations")],
  ["driver calls/s", (each) => rateOf(each, "device_calls")],
  ["retries", (each) => formatCount(each.retries)],
  ["ooms", (each) => formatCount(each.ooms)],
];

function rateOf(allocator: LiveAllocator, key: "allocations" | "device_calls"): string {
  const all = samples.value;
  const rate = ratePerSecond(all.at(-2), all.at(-1)!, key, allocator.number);
  return rate === null ? "–" : rate < 1000 ? rate.toFixed(1) : formatCount(Math.round(rate));
}

function Numbers() {
  const last = samples.value.at(-1);
  if (!last) return <p class="empty">Asking the process …</p>;
  return (
    <section>
      <h2>Now</h2>
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
          {last.numbers.allocators.map((each) => (
            <tr key={each.number}>
              <td title={each.device_name}>
                {each.number}: {each.backend}:{each.device}, {each.engine}
                {each.is_history_on ? ", recording" : ""}
              </td>
              {kColumns.map(([title, of]) => (
                <td key={title}>{of(each)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {last.numbers.trouble && <p class="note">{last.numbers.trouble}</p>}
    </section>
  );
}
