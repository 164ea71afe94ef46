// SPDX-License-Identifier: Apache-2.0
//
// What is selected, and what belongs to it: a selected allocation has a stack, a stream and a pool,
// which views that show those mark, too.
import { computed, effect, signal } from "@preact/signals";
import type { AllocationRows } from "./ask/scene.ts";
import { kNone } from "./ask/scene.ts";
import { answers, messageOf } from "./session.ts";
import { documentNumber, type Selection, selection, type SelectionKind } from "./state.ts";

interface Found {
  of: Selection;
  row: AllocationRows | null; // its only row is the allocation
  error: string | null;
}
const found = signal<Found | null>(null);

// Of a selected allocation, as soon as it is known.
export const selectedRow = computed(() =>
  found.value && found.value.of === selection.value ? found.value : null,
);

// The stack, stream or pool that is selected, or that of the allocation that is; null: none.
export const selectedStack = computed(() => ownOf("stack"));
export const selectedStream = computed(() => ownOf("stream"));
export const selectedPool = computed(() => ownOf("pool"));

function ownOf(kind: Exclude<SelectionKind, "allocation">): number | null {
  if (selection.value?.kind === kind) return selection.value.id;
  const own = selectedRow.value?.row?.[kind][0];
  return own === undefined || own === kNone ? null : own;
}

export function followSelection(): void {
  effect(() => {
    const of = selection.value;
    const number = documentNumber.value;
    if (of?.kind !== "allocation" || !answers.value) return;
    // A late answer is one about something else, and then nobody looks at it.
    rowOf(number, of.id).then(
      (row) => selection.peek() === of && (found.value = { of, row, error: null }),
      (problem) =>
        selection.peek() === of && (found.value = { of, row: null, error: messageOf(problem) }),
    );
  });
}

// In a self-contained file a single allocation is found in the table's rows, if it is among them.
async function rowOf(number: number, id: number): Promise<AllocationRows> {
  const ask = answers.peek()!;
  if (ask.source.kind === "server") return ask.allocation(number, id);
  const rows = await ask.rows(number, {
    sort: "bytes",
    order: "down",
    from: 0,
    at: "all",
    search: "",
  });
  const at = rows.id.indexOf(id);
  if (at < 0)
    throw new Error("This file lists only the largest allocations, and this is none of them.");
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
  };
}
