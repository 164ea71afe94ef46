// SPDX-License-Identifier: Apache-2.0
//
// The state that all views share: document, moment, selection. Except for the vertical zoom, the
// state is stored in the URL's fragment, so that a view can be shared as a link.
import { batch, computed, effect, signal } from "@preact/signals";
import { type Grouping, kGroupings } from "./api/scene.ts";
import type { Span } from "./model/tiles.ts";

export const kViews = ["timeline", "map", "flame", "table", "causes", "compare", "live"] as const;
export type View = (typeof kViews)[number];

export type SelectionKind = "allocation" | "stack" | "stream" | "pool";
export interface Selection {
  kind: SelectionKind;
  id: number;
}

export const view = signal<View>("timeline");
export const documentNumber = signal(0);
export const cursor = signal<number | null>(null); // null: the peak
export const compareCursor = signal<number | null>(null); // null: no second moment
export const selection = signal<Selection | null>(null);
export const grouping = signal<Grouping>("allocation");
export const span = signal<Span | null>(null); // entries shown by the timeline; null: all
// The timeline's vertical zoom: the axis is magnified `magnified` times and starts at `floor`. It
// is not stored in the URL.
export const kAllBytes = { magnified: 1, floor: 0 };
export const vertical = signal(kAllBytes);
export const search = signal("");
export const otherDocument = signal<number | null>(null); // the document to compare with

// Shows another document. Resets cursors, selection and zoom, which are specific to a document.
export function showDocument(number: number): void {
  if (number === documentNumber.value) return;
  batch(() => {
    documentNumber.value = number;
    cursor.value = null;
    compareCursor.value = null;
    selection.value = null;
    span.value = null;
    vertical.value = kAllBytes;
  });
}

export function select(kind: SelectionKind, id: number): void {
  selection.value = { kind, id };
}

export function isSelected(kind: SelectionKind, id: number): boolean {
  return selection.value?.kind === kind && selection.value.id === id;
}

export const hash = computed(() => {
  const words = new URLSearchParams();
  words.set("view", view.value);
  if (documentNumber.value !== 0) words.set("d", String(documentNumber.value));
  if (otherDocument.value !== null) words.set("with", String(otherDocument.value));
  if (cursor.value !== null) words.set("at", String(cursor.value));
  if (compareCursor.value !== null) words.set("from", String(compareCursor.value));
  if (selection.value) words.set("sel", `${selection.value.kind}:${selection.value.id}`);
  if (grouping.value !== "allocation") words.set("by", grouping.value);
  if (span.value) {
    words.set("span", `${Math.round(span.value.from)}-${Math.round(span.value.to)}`);
  }
  if (search.value) words.set("search", search.value);
  // Colons are legal in fragments, and more readable than their escapes.
  return `#${words.toString().replaceAll("%3A", ":")}`;
});

// Parses a fragment. Ignores invalid parts.
export function readHash(text: string): void {
  const words = new URLSearchParams(text.replace(/^#/, ""));
  batch(() => {
    view.value = kViews.find((name) => name === words.get("view")) ?? "timeline";
    showDocument(readNumber(words.get("d")) ?? 0);
    otherDocument.value = readNumber(words.get("with"));
    cursor.value = readNumber(words.get("at"));
    compareCursor.value = readNumber(words.get("from"));
    selection.value = readSelection(words.get("sel"));
    grouping.value = kGroupings.find((name) => name === words.get("by")) ?? "allocation";
    span.value = readSpan(words.get("span"));
    search.value = words.get("search") ?? "";
  });
}

const kDebounceMs = 300; // delays updates, because a drag changes the state with every move

// Keeps URL and state in sync: the state follows immediately, the URL after a delay, because
// browsers limit changes of the URL to a few hundred per minute. Returns a function that stops the
// delayed changes of the URL.
export function syncWithUrl(): () => void {
  readHash(location.hash);
  let timer: ReturnType<typeof setTimeout> | undefined;
  addEventListener("hashchange", () => readHash(location.hash));
  addEventListener("pagehide", writeHash);
  return effect(() => {
    hash.value; // subscribes to all changes
    clearTimeout(timer);
    timer = setTimeout(writeHash, kDebounceMs);
  });
}

function writeHash(): void {
  if (hash.value === location.hash) return;
  try {
    history.replaceState(null, "", hash.value);
  } catch {
    // The browser's limit is reached; a later change will be written.
  }
}

function readNumber(text: string | null): number | null {
  return text !== null && /^\d{1,10}$/.test(text) ? Number(text) : null;
}

function readSelection(text: string | null): Selection | null {
  const match = /^(allocation|stack|stream|pool):(\d{1,10})$/.exec(text ?? "");
  return match ? { kind: match[1] as SelectionKind, id: Number(match[2]) } : null;
}

function readSpan(text: string | null): Span | null {
  const match = /^(\d{1,10})-(\d{1,10})$/.exec(text ?? "");
  if (!match || Number(match[1]) >= Number(match[2])) return null;
  return { from: Number(match[1]), to: Number(match[2]) };
}
