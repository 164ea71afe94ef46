// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test, vi } from "vitest";
import * as state from "../../src/state.ts";

beforeEach(() => state.readHash(""));

test("state round-trips through the URL", () => {
  const text =
    "#view=map&d=2&with=1&at=4711&from=12&sel=stack:5&by=pool&span=100-2000&search=adam+w";
  state.readHash(text);
  expect(state.view.value).toBe("map");
  expect(state.documentNumber.value).toBe(2);
  expect(state.otherDocument.value).toBe(1);
  expect(state.cursor.value).toBe(4711);
  expect(state.compareCursor.value).toBe(12);
  expect(state.selection.value).toEqual({ kind: "stack", id: 5 });
  expect(state.grouping.value).toBe("pool");
  expect(state.span.value).toEqual({ from: 100, to: 2000 });
  expect(state.search.value).toBe("adam w");
  expect(state.hash.value).toBe(text);
});

test("ignores invalid parts of the URL", () => {
  state.readHash("#view=cellar&d=-1&at=soon&sel=stack:x&by=size&span=9-3&other=1");
  expect(state.hash.value).toBe("#view=timeline");
});

test("changing the document resets cursor and selection", () => {
  state.readHash("#view=flame&at=7&from=3&sel=allocation:9&span=1-50");
  state.showDocument(1);
  expect(state.hash.value).toBe("#view=flame&d=1");
});

test("changing the document resets the vertical zoom", () => {
  state.vertical.value = { magnified: 64, floor: 1e9 };
  state.showDocument(1);
  expect(state.vertical.value).toEqual(state.kAllBytes);
  state.vertical.value = { magnified: 64, floor: 1e9 };
  state.readHash("#d=2");
  expect(state.vertical.value).toEqual(state.kAllBytes);
});

test("updates the URL after the state has settled", () => {
  vi.useFakeTimers();
  const location = { hash: "" };
  const replaceState = vi.fn((_: unknown, __: string, hash: string) => (location.hash = hash));
  vi.stubGlobal("location", location);
  vi.stubGlobal("history", { replaceState });
  vi.stubGlobal("addEventListener", () => {});
  const end = state.syncWithUrl();
  for (let at = 0; at < 500; ++at) state.cursor.value = at;
  expect(replaceState).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1000);
  expect(replaceState).toHaveBeenCalledTimes(1);
  expect(location.hash).toBe("#view=timeline&at=499");
  replaceState.mockImplementation(() => {
    throw new Error("too often");
  });
  state.cursor.value = 7;
  vi.advanceTimersByTime(1000);
  end();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("choosing the current document changes nothing", () => {
  state.readHash("#view=flame&at=7&sel=allocation:9");
  state.showDocument(0);
  expect(state.hash.value).toBe("#view=flame&at=7&sel=allocation:9");
});

test("a new selection replaces the previous one", () => {
  state.select("allocation", 3);
  state.select("stream", 1);
  expect(state.isSelected("stream", 1)).toBe(true);
  expect(state.isSelected("allocation", 3)).toBe(false);
});
