// SPDX-License-Identifier: Apache-2.0
//
// The loaded pages of a table. When the sort order or search changes, responses for the previous
// order or search may still arrive, in any order.

const kMaxPages = 8; // limits the memory when scrolling through millions of rows

export interface Pages<Rows> {
  of: string; // identifies sort order and search
  pages: Map<number, Rows>;
  error: string | null;
}

// Returns the state after the first page has arrived.
export function firstPage<Rows>(of: string, rows: Rows): Pages<Rows> {
  return { of, pages: new Map([[0, rows]]), error: null };
}

// Adds a page unless it belongs to another sort order or search. Keeps nearby pages and the first
// page, which has the number of rows.
export function withPage<Rows>(
  kept: Pages<Rows>,
  of: string,
  page: number,
  rows: Rows,
): Pages<Rows> {
  if (kept.of !== of) return kept;
  const near = [...kept.pages].filter(([each]) => each === 0 || Math.abs(each - page) < kMaxPages);
  return { of, pages: new Map(near).set(page, rows), error: null };
}

// Records an error unless it belongs to another sort order or search.
export function withError<Rows>(kept: Pages<Rows>, of: string, error: string): Pages<Rows> {
  return kept.of === of ? { ...kept, error } : kept;
}
