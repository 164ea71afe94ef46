// SPDX-License-Identifier: Apache-2.0
//
// The state that all views share: document, moment, selection, zoom. url.ts stores it in the URL's
// fragment, so that a link shows the same view.
import { batch, type Signal, signal } from "@preact/signals";
import type { Grouping, SortKey } from "./api/scene.ts";
import type { AxisKind } from "./model/axis.ts";
import type { Span } from "./model/tiles.ts";

// In the order of the tabs.
export const kViews = [
  "timeline",
  "map",
  "flame",
  "table",
  "causes",
  "oom",
  "leaks",
  "source",
  "compare",
  "live",
] as const;
export type View = (typeof kViews)[number];

export const kSelectionKinds = ["allocation", "stack", "stream", "pool"] as const;
export type SelectionKind = (typeof kSelectionKinds)[number];
export interface Selection {
  kind: SelectionKind;
  id: number;
}

// How allocations are coloured.
export const kColorings = ["stack", "category"] as const;
export type ColorBy = (typeof kColorings)[number];

export const kTables = ["allocations", "stacks"] as const;
export type TableKind = (typeof kTables)[number];

export const kStackSortKeys = ["bytes", "change", "count", "mean"] as const;
export type StackSortKey = (typeof kStackSortKeys)[number];
export interface Sorting<Key extends string> {
  key: Key;
  order: "up" | "down";
}

export const view = signal<View>("timeline");
export const documentNumber = signal(0);
export const cursor = signal<number | null>(null); // null: the peak
export const compareCursor = signal<number | null>(null); // null: no second moment
export const selection = signal<Selection | null>(null);
export const category = signal<number | null>(null); // the emphasized category; null: none
export const grouping = signal<Grouping>("allocation");
export const colorBy = signal<ColorBy>("stack");
export const axisKind = signal<AxisKind>("entry");
export const span = signal<Span | null>(null); // entries shown by the timeline; null: all
// The timeline's vertical zoom: the axis is magnified `magnified` times and starts at `floor`.
export const kAllBytes = { magnified: 1, floor: 0 };
export const kMostMagnified = 1024;
export const vertical = signal(kAllBytes);
// The address map's zoom: 1 shows all of it. `top` is the fraction of its height above the window.
export const kWholeMap = { zoom: 1, top: 0 };
export const kMostMapZoom = 64;
export const mapWindow = signal(kWholeMap);
export const search = signal("");
export const otherDocument = signal<number | null>(null); // the document to compare with
export const tableKind = signal<TableKind>("allocations");
export const allocationSorting = signal<Sorting<SortKey>>({ key: "bytes", order: "down" });
export const stackSorting = signal<Sorting<StackSortKey>>({ key: "bytes", order: "down" });
export const liveOnly = signal(false); // the table lists only allocations that are live
export const flameRoot = signal<string[]>([]); // frames from the root to the zoomed frame
export const sourceFile = signal<string | null>(null); // null: the file with the most bytes

// The document that a link without a document number shows. Set when the scene has been read.
export const defaultDocument = signal(0);

// Shows another document. Resets the state that is specific to a document: cursors, selection,
// category, zoom and source file.
export function showDocument(number: number): void {
  if (number === documentNumber.value) return;
  batch(() => {
    documentNumber.value = number;
    cursor.value = null;
    compareCursor.value = null;
    selection.value = null;
    category.value = null;
    span.value = null;
    vertical.value = kAllBytes;
    mapWindow.value = kWholeMap;
    sourceFile.value = null;
  });
}

// Sorts by a column, largest value first. If the table is already sorted this way, reverses the
// order.
export function sortBy<Key extends string>(of: Signal<Sorting<Key>>, key: Key): void {
  const isReversed = key === of.value.key && of.value.order === "down";
  of.value = { key, order: isReversed ? "up" : "down" };
}

export function select(kind: SelectionKind, id: number): void {
  selection.value = { kind, id };
}

export function isSelected(kind: SelectionKind, id: number): boolean {
  return selection.value?.kind === kind && selection.value.id === id;
}
