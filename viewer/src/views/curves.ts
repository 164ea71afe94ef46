// SPDX-License-Identifier: Apache-2.0
//
// Shared configuration of the uPlot charts.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { byteTicks } from "../model/format.ts";

const kHoverHint = "hover over the curves to read values";
const kFont = "12px system-ui, sans-serif";

interface ChartSettings {
  height: number;
  x: { label: string; range: uPlot.Scale["range"]; value: (at: number) => string };
  y: uPlot.Axis;
  series: uPlot.Series[]; // without the x axis
}

// Returns the options of a chart, with the colours of the surrounding page.
export function curveOptions(host: HTMLElement, settings: ChartSettings): uPlot.Options {
  return {
    width: host.clientWidth,
    height: settings.height,
    cursor: { drag: { x: false, y: false } },
    legend: {
      markers: { dash: (chart, line) => (chart.series[line].dash ? "dashed" : "solid") },
    },
    scales: {
      x: { time: false, range: settings.x.range },
      y: { range: (_, __, most) => [0, Math.max(most, 1) * 1.05] },
    },
    axes: [
      {
        ...axisStyle(host),
        space: 90,
        values: (_, values) => values.map(settings.x.value),
        label: settings.x.label,
        labelFont: kFont,
        labelSize: 18,
      },
      { ...axisStyle(host), size: 80, ...settings.y },
    ],
    series: [
      {
        label: settings.x.label,
        value: (_, at) => (at === null ? kHoverHint : settings.x.value(at)),
      },
      ...settings.series.map((each) => ({ ...each, points: { show: false } })),
    ],
  };
}

function axisStyle(host: HTMLElement): uPlot.Axis {
  const style = getComputedStyle(host);
  const [ink, grid] = [style.getPropertyValue("--ink-soft"), style.getPropertyValue("--grid")];
  return {
    stroke: ink,
    grid: { stroke: grid, width: 1 },
    ticks: { stroke: grid, width: 1 },
    font: kFont,
  };
}

// Returns an axis with ticks at round byte values.
export function byteAxis(): uPlot.Axis {
  let ticks: ReturnType<typeof byteTicks> = [];
  return {
    splits: (_, __, from, to) => {
      ticks = byteTicks(from, to, roundTicks);
      return ticks.map((tick) => tick.bytes);
    },
    values: () => ticks.map((tick) => tick.label),
  };
}

function roundTicks(from: number, to: number): number[] {
  const step = 10 ** Math.floor(Math.log10((to - from) / 3));
  const round = [1, 2, 5, 10].map((times) => times * step).find((each) => (to - from) / each <= 6);
  const width = round ?? 10 * step;
  return Array.from({ length: Math.floor(to / width) + 1 }, (_, i) => i * width);
}
