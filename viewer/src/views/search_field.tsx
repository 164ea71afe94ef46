// SPDX-License-Identifier: Apache-2.0
//
// The search in frames, which the table and the flame graph share.
import { search } from "../state.ts";

export function SearchField() {
  return (
    <input
      type="search"
      placeholder="Search frames: function, file …"
      aria-label="Search in frames"
      value={search.value}
      onInput={(event) => (search.value = event.currentTarget.value)}
    />
  );
}
