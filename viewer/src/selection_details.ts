// SPDX-License-Identifier: Apache-2.0
//
// The selection and its related objects: the stack, stream and pool of a selected allocation, which
// views highlight as well.
import { computed, effect, signal } from "@preact/signals";
import type { AllocationRows } from "./api/scene.ts";
import { kNone } from "./api/scene.ts";
import { client, messageOf } from "./session.ts";
import { documentNumber, type Selection, selection, type SelectionKind } from "./state.ts";

interface LoadedSelection {
  of: Selection;
  row: AllocationRows | null; // has one row
  error: string | null;
}
const found = signal<LoadedSelection | null>(null);

// The selected allocation, once it has been loaded.
export const selectedRow = computed(() =>
  found.value && found.value.of === selection.value ? found.value : null,
);

// The selected stack, stream and pool, or those of the selected allocation; null if there is none.
export const selectedStack = computed(() => relatedId("stack"));
export const selectedStream = computed(() => relatedId("stream"));
export const selectedPool = computed(() => relatedId("pool"));

function relatedId(kind: Exclude<SelectionKind, "allocation">): number | null {
  if (selection.value?.kind === kind) return selection.value.id;
  const related = selectedRow.value?.row?.[kind][0];
  return related === undefined || related === kNone ? null : related;
}

export function followSelection(): void {
  effect(() => {
    const of = selection.value;
    const number = documentNumber.value;
    if (of?.kind !== "allocation" || !client.value) return;
    // Late responses for an earlier selection are ignored.
    rowOf(number, of.id).then(
      (row) => selection.peek() === of && (found.value = { of, row, error: null }),
      (problem) =>
        selection.peek() === of && (found.value = { of, row: null, error: messageOf(problem) }),
    );
  });
}

// Requests the row of an allocation. A self-contained file has no responses for single allocations,
// only the first rows of the table.
async function rowOf(number: number, id: number): Promise<AllocationRows> {
  const api = client.peek()!;
  if (api.source.kind === "server") return api.allocation(number, id);
  const rows = await api.rows(number, {
    sort: "bytes",
    order: "down",
    from: 0,
    at: "all",
    search: "",
    category: null,
  });
  const at = rows.id.indexOf(id);
  if (at < 0)
    throw new Error("This file lists only the largest allocations; this one is not included.");
  const one = <T extends { slice(from: number, to: number): T }>(column: T) =>
    column.slice(at, at + 1);
  return {
    total: 1,
    id: one(rows.id),
    bytes: one(rows.bytes),
    made: one(rows.made),
    freed: one(rows.freed),
    made_us: one(rows.made_us),
    freed_us: one(rows.freed_us),
    address: one(rows.address),
    stack: one(rows.stack),
    stream: one(rows.stream),
    pool: one(rows.pool),
    category: one(rows.category),
  };
}
