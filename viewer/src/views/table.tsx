// SPDX-License-Identifier: Apache-2.0
//
// The table of allocations or stacks, which can be sorted and searched. Shows all of them, or only
// those that are live at the current moment.
import { formatCount } from "../model/format.ts";
import { moment } from "../session.ts";
import { documentNumber, kTables, liveOnly, search, tableKind } from "../state.ts";
import { AllocationTable } from "./allocation_table.tsx";
import { Choice } from "./choice.tsx";
import { SearchField } from "./search_field.tsx";
import { StackTable } from "./stack_table.tsx";

export function TableView() {
  return (
    <>
      <div class="controls">
        <Choice title="" label="Table of" of={tableKind} choices={kTables} />
        <SearchField />
        {tableKind.value === "allocations" && (
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
      {tableKind.value === "allocations" ? (
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
