// SPDX-License-Identifier: Apache-2.0
//
// The pages of a table that were answered, and what they answer: pages of another order or search
// may still be on their way when that changes, in any order, and several at once.

const kNear = 8; // scrolling through millions must not fill the memory

export interface Pages<Rows> {
  of: string; // which table they are pages of
  pages: Map<number, Rows>;
  error: string | null;
}

// A table of which the first page has come.
export function firstPage<Rows>(of: string, rows: Rows): Pages<Rows> {
  return { of, pages: new Map([[0, rows]]), error: null };
}

// With one more page, if they are still pages of that table. Of the others those near to it stay,
// and the first, which says how many rows there are.
export function withPage<Rows>(
  kept: Pages<Rows>,
  of: string,
  page: number,
  rows: Rows,
): Pages<Rows> {
  if (kept.of !== of) return kept;
  const near = [...kept.pages].filter(([each]) => each === 0 || Math.abs(each - page) < kNear);
  return { of, pages: new Map(near).set(page, rows), error: null };
}

// With what went wrong, if somebody still wants to know.
export function withError<Rows>(kept: Pages<Rows>, of: string, error: string): Pages<Rows> {
  return kept.of === of ? { ...kept, error } : kept;
}
