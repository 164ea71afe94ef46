// SPDX-License-Identifier: Apache-2.0
//
// The table of allocations or stacks, which can be sorted and searched. Shows all of them, or only
// those that are live at the current moment.
import { signal } from "@preact/signals";
import { formatCount } from "../model/format.ts";
import { moment } from "../session.ts";
import { documentNumber, search } from "../state.ts";
import { AllocationTable } from "./allocation_table.tsx";
import { StackTable } from "./stack_table.tsx";

const what = signal<"allocations" | "stacks">("allocations");
const liveOnly = signal(false);

export function TableView() {
  return (
    <>
      <div class="controls">
        <div class="choice" role="group" aria-label="Table of">
          {(["allocations", "stacks"] as const).map((name) => (
            <button
              type="button"
              key={name}
              aria-pressed={what.value === name}
              onClick={() => (what.value = name)}
            >
              {name}
            </button>
          ))}
        </div>
        <input
          type="search"
          placeholder="Search frames: function, file …"
          aria-label="Search in frames"
          value={search.value}
          onInput={(event) => (search.value = event.currentTarget.value)}
        />
        {what.value === "allocations" && (
          <label>
            <input
              type="checkbox"
              checked={liveOnly.value}
              onChange={(event) => (liveOnly.value = event.currentTarget.checked)}
            />{" "}
            only live at entry {formatCount(moment.value)}
          </label>
        )}
      </div>
      {what.value === "allocations" ? (
        <AllocationTable
          key={documentNumber.value}
          at={liveOnly.value ? moment.value : "all"}
          search={search.value}
        />
      ) : (
        <StackTable search={search.value} />
      )}
    </>
  );
}
