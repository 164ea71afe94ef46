// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { isCommand, acceptsText } from "../../src/keys.ts";
import { rowAfter } from "../../src/views/virtual_rows.tsx";

const press = (key: string, held: Partial<Parameters<typeof isCommand>[0]> = {}) => ({
  key,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  ...held,
});

test("leaves Ctrl, Alt and Meta to the browser except for typed brackets", () => {
  expect(isCommand(press("p"))).toBe(false);
  expect(isCommand(press("p", { ctrlKey: true }))).toBe(true);
  expect(isCommand(press("ArrowLeft", { altKey: true }))).toBe(true);
  expect(isCommand(press("[", { altKey: true }))).toBe(false);
  expect(isCommand(press("}", { altKey: true, ctrlKey: true }))).toBe(false);
  expect(isCommand(press("[", { metaKey: true }))).toBe(true);
});

test("only text inputs capture letters", () => {
  expect(acceptsText("INPUT", "search")).toBe(true);
  expect(acceptsText("INPUT", null)).toBe(true);
  expect(acceptsText("SELECT", null)).toBe(true);
  expect(acceptsText("INPUT", "checkbox")).toBe(false);
  expect(acceptsText("INPUT", "radio")).toBe(false);
  expect(acceptsText("INPUT", "file")).toBe(false);
  expect(acceptsText("BUTTON", null)).toBe(false);
});

test("arrow keys move between rows and stop at the ends", () => {
  const from = { active: 3, page: 10, count: 20 };
  expect(rowAfter("ArrowDown", from)).toBe(4);
  expect(rowAfter("PageUp", from)).toBe(0);
  expect(rowAfter("End", from)).toBe(19);
  expect(rowAfter("Home", from)).toBe(0);
  expect(rowAfter("ArrowDown", { ...from, active: -1 })).toBe(0);
  expect(rowAfter("x", from)).toBe(null);
  expect(rowAfter("ArrowDown", { ...from, count: 0 })).toBe(null);
});
