// SPDX-License-Identifier: Apache-2.0
//
// Memory of two documents in one chart, each scaled to its own length.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { DocumentScene, TileColumns } from "../api/scene.ts";
import { cssColor, kPalette } from "../model/colors.ts";
import { titleOf } from "../model/compare.ts";
import { formatBytes } from "../model/format.ts";
import { theme } from "../theme.ts";
import { byteAxis, curveOptions } from "./curves.ts";
import { useWholeTile } from "./overview.tsx";
import { watchSize } from "./use_chart.ts";

const kSteps = 400; // steps of the x axis, from start to end of each run
const kHeight = 260;
// Blue, lighter in the dark theme, and vermilion.
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
    const unwatch = watchSize(host.current, () =>
      chart.setSize({ width: host.current!.clientWidth, height: kHeight }),
    );
    return () => {
      unwatch();
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
    const columnEntries = 2 ** (documents[side].levels - 1);
    const at = (values: Float64Array, share: number) => {
      const entry = (share / 100) * (documents[side].entries - 1);
      return values[Math.min(values.length - 1, Math.floor(entry / columnEntries))];
    };
    return [tile.requested, tile.reserved_high].map((values) =>
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
  return curveOptions(host, {
    height: kHeight,
    x: { label: "of the run", range: [0, 100], value: (share) => `${Number(share.toFixed(1))} %` },
    y: byteAxis(),
    series: of.flatMap((number, side) =>
      ["requested", "reserved"].map((what) => ({
        label: `${side === 0 ? "A" : "B"} ${what}`,
        stroke: kColors[theme.peek()][side],
        width: what === "requested" ? 2 : 1,
        dash: what === "requested" ? undefined : [4, 4],
        value: (_: uPlot, value: number | null) =>
          value === null ? titleOf(documents[number]) : formatBytes(value),
      })),
    ),
  });
}
