// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test, vi } from "vitest";
import * as state from "../../src/state.ts";
import { hash, readHash, syncWithUrl } from "../../src/url.ts";

beforeEach(() => readHash(""));

test("state round-trips through the URL", () => {
  const text =
    "#view=map&d=2&with=1&at=4711&from=12&sel=stack:5&category=3&by=pool&color=category&axis=time" +
    "&span=100.125-2000&bytes=4.50@1048576&search=adam+w&map=2.25@0.314&sort=made:up" +
    "&stacksort=count:down&table=stacks&live=1" +
    "&frame=main++a.py:3%0Astep++b.py:7&file=%2Fsrv%2Fjobs%2Ftrain.py";
  readHash(text);
  expect(state.view.value).toBe("map");
  expect(state.documentNumber.value).toBe(2);
  expect(state.otherDocument.value).toBe(1);
  expect(state.cursor.value).toBe(4711);
  expect(state.compareCursor.value).toBe(12);
  expect(state.selection.value).toEqual({ kind: "stack", id: 5 });
  expect(state.grouping.value).toBe("pool");
  expect(state.span.value).toEqual({ from: 100.125, to: 2000 });
  expect(state.vertical.value).toEqual({ magnified: 4.5, floor: 1048576 });
  expect(state.category.value).toBe(3);
  expect(state.colorBy.value).toBe("category");
  expect(state.axisKind.value).toBe("time");
  expect(state.flameRoot.value).toEqual(["main  a.py:3", "step  b.py:7"]);
  expect(state.sourceFile.value).toBe("/srv/jobs/train.py");
  expect([state.tableKind.value, state.liveOnly.value]).toEqual(["stacks", true]);
  expect(state.search.value).toBe("adam w");
  expect(state.mapWindow.value).toEqual({ zoom: 2.25, top: 0.314 });
  expect(state.allocationSorting.value).toEqual({ key: "made", order: "up" });
  expect(state.stackSorting.value).toEqual({ key: "count", order: "down" });
  expect(hash.value).toBe(text);
});

test("ignores invalid parts of the URL", () => {
  readHash("#view=unknown&d=-1&at=soon&sel=stack:x&by=size&span=9-3&other=1");
  expect(hash.value).toBe("#view=timeline");
});

// If a link kept the current zoom, it would show different views to different readers.
test("a link resets what it does not mention", () => {
  readHash(
    "#view=table&span=5-50&bytes=64.00@1000&map=9@0.5&sort=age:up&color=category&table=stacks" +
      "&live=1&frame=a",
  );
  readHash("#view=timeline&at=3");
  expect(hash.value).toBe("#view=timeline&at=3");
  expect(state.vertical.value).toEqual(state.kAllBytes);
});

test("ignores an invalid vertical zoom", () => {
  for (const text of ["0.5@0", "2000@0", "4", "4@-1", "x@y"]) {
    readHash(`#view=timeline&bytes=${text}`);
    expect(state.vertical.value).toEqual(state.kAllBytes);
  }
});

test("ignores an invalid sort order and an invalid zoom of the map", () => {
  for (const text of ["map=0.5@0", "map=65@0", "map=2@1.5", "sort=mean:up", "sort=made:left"]) {
    readHash(`#view=map&${text}`);
    expect(hash.value).toBe("#view=map");
  }
});

test("a column sorts downwards first, then upwards", () => {
  state.sortBy(state.allocationSorting, "made");
  expect(state.allocationSorting.value).toEqual({ key: "made", order: "down" });
  state.sortBy(state.allocationSorting, "made");
  expect(state.allocationSorting.value).toEqual({ key: "made", order: "up" });
});

test("changing the document resets cursor and selection", () => {
  readHash("#view=flame&at=7&from=3&sel=allocation:9&span=1-50");
  state.showDocument(1);
  expect(hash.value).toBe("#view=flame&d=1");
});

test("changing the document resets the vertical zoom", () => {
  state.vertical.value = { magnified: 64, floor: 1e9 };
  state.showDocument(1);
  expect(state.vertical.value).toEqual(state.kAllBytes);
  state.vertical.value = { magnified: 64, floor: 1e9 };
  readHash("#d=2");
  expect(state.vertical.value).toEqual(state.kAllBytes);
});

test("updates the URL after the state has settled", () => {
  vi.useFakeTimers();
  const location = { hash: "" };
  const replaceState = vi.fn((_: unknown, __: string, hash: string) => (location.hash = hash));
  const page: { url?: string } = {};
  vi.stubGlobal("document", { documentElement: { dataset: page } });
  vi.stubGlobal("location", location);
  vi.stubGlobal("history", { replaceState });
  vi.stubGlobal("addEventListener", () => {});
  const end = syncWithUrl();
  for (let at = 0; at < 500; ++at) state.cursor.value = at;
  expect(replaceState).not.toHaveBeenCalled();
  expect(page.url).toBe("pending");
  vi.advanceTimersByTime(1000);
  expect(replaceState).toHaveBeenCalledTimes(1);
  expect(location.hash).toBe("#view=timeline&at=499");
  expect(page.url).toBe("current");
  replaceState.mockImplementation(() => {
    throw new Error("too often");
  });
  state.cursor.value = 7;
  vi.advanceTimersByTime(1000);
  expect(page.url).toBe("pending");
  end();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("choosing the current document changes nothing", () => {
  readHash("#view=flame&at=7&sel=allocation:9");
  state.showDocument(0);
  expect(hash.value).toBe("#view=flame&at=7&sel=allocation:9");
});

test("a new selection replaces the previous one", () => {
  state.select("allocation", 3);
  state.select("stream", 1);
  expect(state.isSelected("stream", 1)).toBe(true);
  expect(state.isSelected("allocation", 3)).toBe(false);
});
