// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { firstPage, withError, withPage } from "../../src/model/row_pages.ts";

test("ignores late pages of another sort order", () => {
  const kept = firstPage("by age", "young");
  expect(withPage(kept, "by size", 3, "large")).toBe(kept);
  expect(withError(kept, "by size", "no")).toBe(kept);
});

test("keeps concurrent pages in any order", () => {
  const first = firstPage("by size", "0");
  const both = withPage(withPage(first, "by size", 3, "3"), "by size", 2, "2");
  expect([...both.pages.keys()].sort()).toEqual([0, 2, 3]);
});

test("evicts distant pages but keeps the first", () => {
  let kept = firstPage("by size", 0);
  for (let page = 1; page <= 30; ++page) kept = withPage(kept, "by size", page, page);
  expect(kept.pages.get(0)).toBe(0);
  expect(kept.pages.get(30)).toBe(30);
  expect(kept.pages.size).toBeLessThan(12);
});

test("shows an error until a page arrives", () => {
  const kept = withError(firstPage("by size", 0), "by size", "gone");
  expect(kept.error).toBe("gone");
  expect(withPage(kept, "by size", 1, 1).error).toBe(null);
});
