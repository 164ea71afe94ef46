// SPDX-License-Identifier: Apache-2.0
//
// The table of stacks with live bytes at the current and the compared moment.
import { useMemo } from "preact/hooks";
import { cssColor } from "../model/colors.ts";
import { formatBytes, formatChange, formatCount, plural } from "../model/format.ts";
import { hasFrame, stackTitle } from "../model/frames.ts";
import { changeOf, type StackUse } from "../model/stack_use.ts";
import { selectedStack } from "../selection_details.ts";
import { coloring, moment, otherMoment, stacks } from "../session.ts";
import { isSelected, select, stackSorting, type StackSortKey } from "../state.ts";
import { theme } from "../theme.ts";
import { Cell, type Column, TableHead } from "./table_parts.tsx";
import { useStackUse } from "./use_request.ts";
import { type RowPlace, VirtualRows } from "./virtual_rows.tsx";

interface Row extends Record<StackSortKey, number> {
  stack: number;
}

function rowOf(use: StackUse): Row {
  const { stack, bytes, count } = use;
  return { stack, bytes, count, change: changeOf(use), mean: bytes / Math.max(1, count) };
}

export function StackTable({ search }: { search: string }) {
  const other = otherMoment.value;
  const { value, error } = useStackUse();
  const found = stacks.value;
  const { key, order } = stackSorting.value;
  const rows = useMemo(() => {
    const has = (row: Row) => search === "" || hasFrame(found, row.stack, search);
    const sign = order === "up" ? 1 : -1;
    return (value ?? [])
      .map(rowOf)
      .filter(has)
      .sort((a, b) => sign * (a[key] - b[key]));
  }, [value, search, key, order, found]);
  const columns: Column<StackSortKey>[] = [
    { key: "bytes", title: "live bytes", isNumber: true },
    { key: "change", title: other === null ? "" : "since B", isNumber: true },
    { key: "count", title: "allocations", isNumber: true },
    { key: "mean", title: "mean size", isNumber: true },
    { key: null, title: "stack, innermost frame", isNumber: false },
  ];
  return (
    <div class="table stacks" data-total={rows.length}>
      {error && <p class="empty">{error}</p>}
      <VirtualRows
        label="Stacks"
        head={<TableHead columns={columns} sorting={stackSorting} />}
        count={rows.length}
        resetOn={`${search} ${key} ${order}`}
        row={(index, at) => <StackRow row={rows[index]} isCompared={other !== null} at={at} />}
        onChoose={(index) => select("stack", rows[index].stack)}
      />
      <p class="status">
        {plural(rows.length, "stack")} with live memory at entry {formatCount(moment.value)}
      </p>
    </div>
  );
}

function StackRow({ row, isCompared, at }: { row: Row; isCompared: boolean; at: RowPlace }) {
  return (
    <div
      class={`row${selectedStack.value === row.stack ? " related" : ""}`}
      role="row"
      aria-selected={isSelected("stack", row.stack)}
      data-id={row.stack}
      onClick={() => select("stack", row.stack)}
      {...at}
    >
      <Cell>{formatBytes(row.bytes)}</Cell>
      <Cell>{isCompared ? formatChange(row.change) : ""}</Cell>
      <Cell>{formatCount(row.count)}</Cell>
      <Cell>{formatBytes(row.mean)}</Cell>
      <Cell class="frame">
        <i
          class="swatch"
          style={{ background: cssColor(coloring.value.stack.of(row.stack, theme.value)) }}
        />
        {stackTitle(stacks.value, row.stack)}
      </Cell>
    </div>
  );
}
