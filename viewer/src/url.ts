// SPDX-License-Identifier: Apache-2.0
//
// The state of the page in the URL's fragment. A fragment determines the whole state: parts that
// the fragment lacks have their default value, so that a link shows the same view to each reader.
import { batch, computed, effect, type Signal } from "@preact/signals";
import { kGroupings, kSortKeys } from "./api/scene.ts";
import { kAxisKinds } from "./model/axis.ts";
import type { Span } from "./model/tiles.ts";
import * as state from "./state.ts";

// A part of the state: its name in the fragment, and its text; null stands for the default value.
interface Part {
  name: string;
  write: () => string | null;
  read: (text: string | null) => void;
}

function number(name: string, of: Signal<number | null>): Part {
  return {
    name,
    write: () => (of.value === null ? null : String(of.value)),
    read: (text) => (of.value = readNumber(text)),
  };
}

let namesDocument = false; // whether the last fragment that was read has a document number

// The first choice is the default.
function choice<T extends string>(name: string, of: Signal<T>, choices: readonly T[]): Part {
  return {
    name,
    write: () => (of.value === choices[0] ? null : of.value),
    read: (text) => (of.value = choices.find((each) => each === text) ?? choices[0]),
  };
}

// The first key in descending order is the default.
function sorting<Key extends string>(
  name: string,
  of: Signal<state.Sorting<Key>>,
  keys: readonly Key[],
): Part {
  return {
    name,
    write: () => {
      const { key, order } = of.value;
      return key === keys[0] && order === "down" ? null : `${key}:${order}`;
    },
    read: (text) => {
      const [wanted, order] = (text ?? "").split(":");
      const key = keys.find((each) => each === wanted);
      const isValid = key !== undefined && (order === "up" || order === "down");
      of.value = isValid ? { key, order } : { key: keys[0], order: "down" };
    },
  };
}

const kParts: Part[] = [
  {
    ...choice("view", state.view, state.kViews),
    write: () => state.view.value, // always present, so that the fragment is never empty
  },
  {
    name: "d",
    write: () => {
      const number = state.documentNumber.value;
      return number === state.defaultDocument.value ? null : String(number);
    },
    read: (text) => {
      const number = readNumber(text);
      namesDocument = number !== null;
      state.showDocument(number ?? state.defaultDocument.value);
    },
  },
  number("with", state.otherDocument),
  number("at", state.cursor),
  number("from", state.compareCursor),
  {
    name: "sel",
    write: () =>
      state.selection.value && `${state.selection.value.kind}:${state.selection.value.id}`,
    read: (text) => (state.selection.value = readSelection(text)),
  },
  number("category", state.category),
  choice("by", state.grouping, kGroupings),
  choice("color", state.colorBy, state.kColorings),
  choice("axis", state.axisKind, kAxisKinds),
  {
    name: "span",
    write: () => state.span.value && writeSpan(state.span.value),
    read: (text) => (state.span.value = readSpan(text)),
  },
  {
    name: "bytes",
    write: () => {
      const { magnified, floor } = state.vertical.value;
      return magnified === 1 ? null : `${magnified.toFixed(2)}@${Math.round(floor)}`;
    },
    read: (text) => (state.vertical.value = readVertical(text)),
  },
  {
    name: "search",
    write: () => state.search.value || null,
    read: (text) => (state.search.value = text ?? ""),
  },
  {
    name: "map",
    write: () => {
      const { zoom, top } = state.mapWindow.value;
      if (zoom === 1 && top === 0) return null;
      return `${Number(zoom.toFixed(2))}@${Number(top.toFixed(4))}`;
    },
    read: (text) => (state.mapWindow.value = readMapWindow(text)),
  },
  sorting("sort", state.allocationSorting, kSortKeys),
  sorting("stacksort", state.stackSorting, state.kStackSortKeys),
  choice("table", state.tableKind, state.kTables),
  {
    name: "live",
    write: () => (state.liveOnly.value ? "1" : null),
    read: (text) => (state.liveOnly.value = text === "1"),
  },
  {
    name: "frame",
    write: () => (state.flameRoot.value.length > 0 ? state.flameRoot.value.join("\n") : null),
    read: (text) => (state.flameRoot.value = text ? text.split("\n") : []),
  },
  {
    name: "file",
    write: () => state.sourceFile.value,
    read: (text) => (state.sourceFile.value = text),
  },
];

export const hash = computed(() => {
  const words = new URLSearchParams();
  for (const part of kParts) {
    const text = part.write();
    if (text !== null) words.set(part.name, text);
  }
  // Colons and at signs are legal in fragments, and more readable than their escapes.
  return `#${words.toString().replaceAll("%3A", ":").replaceAll("%40", "@")}`;
});

// Parses a fragment. Ignores invalid parts.
export function readHash(text: string): void {
  const words = wordsOf(text);
  batch(() => {
    for (const part of kParts) part.read(words.get(part.name));
  });
}

// Sets the default document, which links without a document number show. Unlike showDocument, keeps
// the other parts of the state, which the fragment specified for that document.
export function setDefaultDocument(number: number): void {
  batch(() => {
    if (!namesDocument) state.documentNumber.value = number;
    state.defaultDocument.value = number;
  });
}

const kDebounceMs = 300; // delays updates, because a drag changes the state with every move

// Keeps URL and state in sync: the state follows immediately, the URL after a delay, because
// browsers limit changes of the URL to a few hundred per minute. The attribute data-url of the page
// says whether the URL has the current state. Returns a function that stops the delayed changes of
// the URL.
export function syncWithUrl(): () => void {
  readHash(location.hash);
  let timer: ReturnType<typeof setTimeout> | undefined;
  addEventListener("hashchange", () => readHash(location.hash));
  addEventListener("pagehide", writeHash);
  return effect(() => {
    hash.value; // subscribes to all changes
    document.documentElement.dataset.url = "pending";
    clearTimeout(timer);
    timer = setTimeout(writeHash, kDebounceMs);
  });
}

function writeHash(): void {
  try {
    if (hash.value !== location.hash) history.replaceState(null, "", hash.value);
    document.documentElement.dataset.url = "current";
  } catch {
    // The browser's limit is reached; the next change of the state is written.
  }
}

function wordsOf(text: string): URLSearchParams {
  return new URLSearchParams(text.replace(/^#/, ""));
}

function readNumber(text: string | null): number | null {
  return text !== null && /^\d{1,10}$/.test(text) ? Number(text) : null;
}

function readSelection(text: string | null): state.Selection | null {
  const [kind, id] = (text ?? "").split(":");
  const found = state.kSelectionKinds.find((each) => each === kind);
  const number = readNumber(id ?? null);
  return found && number !== null ? { kind: found, id: number } : null;
}

// On a time axis, a span may begin and end between entries.
function writeSpan({ from, to }: Span): string {
  const round = (entry: number) => String(Number(entry.toFixed(3)));
  return `${round(from)}-${round(to)}`;
}

function readSpan(text: string | null): Span | null {
  const match = /^(\d{1,10}(?:\.\d{1,3})?)-(\d{1,10}(?:\.\d{1,3})?)$/.exec(text ?? "");
  if (!match || Number(match[1]) >= Number(match[2])) return null;
  return { from: Number(match[1]), to: Number(match[2]) };
}

function readVertical(text: string | null): typeof state.kAllBytes {
  const match = /^(\d{1,4}(?:\.\d{1,2})?)@(\d{1,16})$/.exec(text ?? "");
  const magnified = match ? Number(match[1]) : 1;
  if (!match || magnified <= 1 || magnified > state.kMostMagnified) return state.kAllBytes;
  return { magnified, floor: Number(match[2]) };
}

function readMapWindow(text: string | null): typeof state.kWholeMap {
  const match = /^(\d{1,2}(?:\.\d{1,2})?)@([01](?:\.\d{1,4})?)$/.exec(text ?? "");
  const [zoom, top] = match ? [Number(match[1]), Number(match[2])] : [0, 0];
  const isValid = zoom >= 1 && zoom <= state.kMostMapZoom && top <= 1;
  return isValid ? { zoom, top } : state.kWholeMap;
}
