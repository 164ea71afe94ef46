// SPDX-License-Identifier: Apache-2.0
//
// Components that both tables share: the sortable head and the cells.
import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { sortBy, type Sorting } from "../state.ts";

export interface Column<Key extends string> {
  key: Key | null; // sort key; null: not sortable
  title: string;
  isNumber: boolean;
}

export function TableHead<Key extends string>(props: {
  columns: Column<Key>[];
  sorting: Signal<Sorting<Key>>;
}) {
  const { key: sortKey, order } = props.sorting.value;
  return (
    <div class="row head" role="row">
      {props.columns.map((column) => {
        const key = column.key;
        const sorted = key !== null && key === sortKey;
        return (
          <span
            key={column.title}
            role="columnheader"
            class={column.isNumber ? "number" : ""}
            aria-sort={sorted ? (order === "up" ? "ascending" : "descending") : undefined}
          >
            {key === null ? (
              column.title
            ) : (
              <button type="button" onClick={() => sortBy(props.sorting, key)}>
                {column.title}
                {sorted && (order === "up" ? " ↑" : " ↓")}
              </button>
            )}
          </span>
        );
      })}
    </div>
  );
}

export function Cell(props: { class?: string; children: ComponentChildren }) {
  return (
    <span role="gridcell" class={props.class ?? "number"}>
      {props.children}
    </span>
  );
}
