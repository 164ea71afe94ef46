// SPDX-License-Identifier: Apache-2.0
//
// The colours of the timeline: the colours of the chosen colouring, faded for items outside of the
// selection or of the chosen category.
import { computed } from "@preact/signals";
import { type Grouping, kNone, type Tile } from "../api/scene.ts";
import { type Coloring, fade, kNeutral, type Rgb, shade } from "../model/colors.ts";
import { smallGroupOf } from "../model/tile_quads.ts";
import { selectedPool, selectedStack, selectedStream } from "../selection_details.ts";
import { coloring } from "../session.ts";
import { category, selection, type SelectionKind } from "../state.ts";
import { theme } from "../theme.ts";

// The function is replaced only when colours change, because the chart compares functions by
// identity.
export const colorOf = computed(() => {
  const colors = coloring.value;
  const now = theme.value;
  const chosen = selection.value;
  const groups = {
    stack: selectedStack.value,
    stream: selectedStream.value,
    pool: selectedPool.value,
  };
  const only = category.value;
  const isFaded = (allocation: Record<SelectionKind, number>, itsCategory: number): boolean =>
    (only !== null && itsCategory !== only) ||
    (chosen !== null && allocation[chosen.kind] !== chosen.id);
  const fadedIf = (faded: boolean, color: Rgb): Rgb => (faded ? fade(color, now) : color);
  return (tile: Tile, row: number): Rgb => {
    if (row === kNone) return fadedIf(chosen !== null || only !== null, kNeutral[now]);
    if (tile.by !== "allocation") {
      const group = tile.group[row];
      const selectedGroup = tile.by === "category" ? only : groups[tile.by];
      const color = coloringOf(colors, tile.by).of(group, now);
      return fadedIf(selectedGroup !== null && selectedGroup !== group, color);
    }
    const small = smallGroupOf(tile, row, colors.by);
    if (small) {
      const isOther =
        colors.by === "category"
          ? only !== null && small.id !== only
          : groups.stack !== null && small.id !== groups.stack;
      const faded = isOther || (chosen !== null && colors.by === "category");
      return fadedIf(faded, coloringOf(colors, colors.by).of(small.id, now));
    }
    const { id, stack, stream, pool } = tile.rows;
    const by = colors.ofAllocation(id[row], stack[row], tile.rows.category[row]);
    const color = shade(by.coloring.of(by.id, now), id[row]);
    const ids = { allocation: id[row], stack: stack[row], stream: stream[row], pool: pool[row] };
    return fadedIf(isFaded(ids, tile.rows.category[row]), color);
  };
});

function coloringOf(colors: typeof coloring.value, by: Exclude<Grouping, "allocation">): Coloring {
  if (by === "stack") return colors.stack;
  return by === "category" ? colors.category : colors.other;
}
