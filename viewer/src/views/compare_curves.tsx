// Two documents' memory over their own lengths, in one chart.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { DocumentScene, TileColumns } from "../ask/scene.ts";
import { cssColor, kPalette } from "../model/colors.ts";
import { byteTicks, formatBytes } from "../model/format.ts";
import { theme } from "../theme.ts";
import { titleOf } from "./compare.tsx";
import { useWholeTile } from "./overview.tsx";

const kSteps = 400; // of the common axis, from the start of each run to its end
const kHigh = 260;
// Blue, which dark paper wants lighter, and vermilion.
const kColors = {
  light: [cssColor(kPalette[0]), cssColor(kPalette[5])],
  dark: [cssColor(kPalette[4]), cssColor(kPalette[5])],
};

interface Pair {
  documents: DocumentScene[];
  of: [number, number];
}

export function CompareCurves({ documents, of }: Pair) {
  const host = useRef<HTMLDivElement>(null);
  const tiles = [useWholeTile(of[0]), useWholeTile(of[1])];
  const now = theme.value;
  useEffect(() => {
    const [base, other] = tiles;
    if (!host.current || !base || !other) return;
    const chart = new uPlot(
      optionsOf(host.current, documents, of),
      dataOf([base, other], [documents[of[0]], documents[of[1]]]),
      host.current,
    );
    const sizes = new ResizeObserver(() =>
      chart.setSize({ width: host.current!.clientWidth, height: kHigh }),
    );
    sizes.observe(host.current);
    return () => {
      sizes.disconnect();
      chart.destroy();
    };
  }, [tiles[0], tiles[1], now]);
  return (
    <section>
      <h2>Memory over the run</h2>
      <div class="curves" ref={host} />
    </section>
  );
}

function dataOf(tiles: TileColumns[], documents: DocumentScene[]): uPlot.AlignedData {
  const shares = Array.from({ length: kSteps + 1 }, (_, i) => (100 * i) / kSteps);
  const lines = tiles.flatMap((tile, side) => {
    const wide = 2 ** (documents[side].levels - 1);
    const at = (values: Float64Array, share: number) => {
      const entry = (share / 100) * (documents[side].entries - 1);
      return values[Math.min(values.length - 1, Math.floor(entry / wide))];
    };
    return [tile.requested, tile.reserved].map((values) =>
      shares.map((share) => at(values, share)),
    );
  });
  return [shares, ...lines];
}

function optionsOf(
  host: HTMLElement,
  documents: DocumentScene[],
  of: [number, number],
): uPlot.Options {
  const style = getComputedStyle(host);
  const [ink, grid] = [style.getPropertyValue("--ink-soft"), style.getPropertyValue("--grid")];
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  const font = "12px system-ui, sans-serif";
  let ticks: ReturnType<typeof byteTicks> = [];
  return {
    width: host.clientWidth,
    height: kHigh,
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { time: false, range: [0, 100] },
      y: { range: (_, __, most) => [0, most * 1.05] },
    },
    axes: [
      {
        ...axis,
        font,
        space: 90,
        values: (_, values) => values.map((value) => `${value} %`),
        label: "of the run",
        labelFont: font,
        labelSize: 18,
      },
      {
        ...axis,
        font,
        size: 80,
        splits: (_, __, from, to) => {
          ticks = byteTicks(from, to, roundTicks);
          return ticks.map((tick) => tick.bytes);
        },
        values: () => ticks.map((tick) => tick.label),
      },
    ],
    series: [
      { label: "run", value: (_, value) => (value === null ? "" : `${value.toFixed(1)} %`) },
      ...of.flatMap((number, side) =>
        ["requested", "reserved"].map((what) => ({
          label: `${side === 0 ? "A" : "B"} ${what}`,
          stroke: kColors[theme.peek()][side],
          width: what === "requested" ? 2 : 1,
          dash: what === "requested" ? undefined : [4, 4],
          value: (_: uPlot, value: number | null) =>
            value === null ? titleOf(documents[number]) : formatBytes(value),
          points: { show: false },
        })),
      ),
    ],
  };
}

function roundTicks(from: number, to: number): number[] {
  const step = 10 ** Math.floor(Math.log10((to - from) / 3));
  const round = [1, 2, 5, 10].map((times) => times * step).find((each) => (to - from) / each <= 6);
  const width = round ?? 10 * step;
  return Array.from({ length: Math.floor(to / width) + 1 }, (_, i) => i * width);
}
