// SPDX-License-Identifier: Apache-2.0
//
// The keyboard: one table of keys, from which the help page is written too. Keys that mean
// something in one view only are registered by that view while it is shown.
import { signal } from "@preact/signals";
import { kGroupings } from "./ask/scene.ts";
import { moment, moveCursor, scene, shown, stepCursor } from "./session.ts";
import {
  compareCursor,
  cursor,
  documentNumber,
  grouping,
  kViews,
  selection,
  showDocument,
  view,
} from "./state.ts";
import { switchTheme } from "./theme.ts";

export interface Key {
  keys: string[]; // as KeyboardEvent.key says them; "Shift+" before it where shift matters
  says: string;
  does: (key: string) => void;
  needsNothing?: boolean; // works before there is a document, and while help is shown
}

export const helpShown = signal(false);

const kShare = 100; // a large step of the cursor is this part of the document

export const kEverywhere: Key[] = [
  {
    keys: kViews.map((_, i) => String(i + 1)),
    says: "show timeline, map, flame graph, table, causes, compare, what is live",
    does: (key) => (view.value = kViews[Number(key) - 1]),
  },
  {
    keys: ["[", "]"],
    says: "one entry back, forward",
    does: (key) => stepCursor(key === "[" ? -1 : 1),
  },
  {
    keys: ["{", "}"],
    says: "a hundredth of the trace back, forward",
    does: (key) => stepCursor((key === "{" ? -1 : 1) * largeStep()),
  },
  { keys: ["p"], says: "to the peak", does: () => (cursor.value = null) },
  { keys: ["o"], says: "to the next out of memory", does: () => toNextOom() },
  {
    keys: ["b"],
    says: "compare: set the second moment here, or take it away",
    does: () => (compareCursor.value = compareCursor.value === null ? moment.value : null),
  },
  { keys: ["x"], says: "compare: swap the two moments", does: () => swapMoments() },
  {
    keys: ["g"],
    says: "stack by allocation, stack, stream, pool",
    does: () =>
      (grouping.value = kGroupings[(kGroupings.indexOf(grouping.value) + 1) % kGroupings.length]),
  },
  { keys: ["n"], says: "next document", does: () => nextDocument() },
  { keys: ["/"], says: "search the table", does: () => focusSearch() },
  { keys: ["t"], says: "light or dark", does: () => switchTheme(), needsNothing: true },
  { keys: ["Escape"], says: "select nothing", does: () => (selection.value = null) },
  {
    keys: ["?"],
    says: "this page",
    does: () => (helpShown.value = !helpShown.value),
    needsNothing: true,
  },
];

// Those of the view that is shown.
export const viewKeys = signal<Key[]>([]);

// Whoever has the focus goes first: what it has used is not meant for the page.
export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || isCommand(event) || isTyping(event)) return;
    const name = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
    const key = keysNow().find((each) => each.keys.includes(name));
    if (!key) return;
    event.preventDefault();
    key.does(name);
  });
}

// Help lies upon everything; before there is a document, there is nothing to step through.
function keysNow(): Key[] {
  if (helpShown.value || !shown.value) return kEverywhere.filter((each) => each.needsNothing);
  return [...viewKeys.value, ...kEverywhere];
}

type Press = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">;

// Whether it is the browser's or the system's. Many keyboards have brackets behind Alt, which
// comes with Ctrl on some systems.
export function isCommand(event: Press): boolean {
  if (event.altKey && "[]{}".includes(event.key)) return event.metaKey;
  return event.ctrlKey || event.metaKey || event.altKey;
}

export function largeStep(): number {
  return Math.max(1, Math.round((shown.value?.entries ?? kShare) / kShare));
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  if (!target || !takesLetters(target.tagName, target.getAttribute("type"))) return false;
  if (event.key === "Escape") target.blur();
  return true;
}

// A list takes letters to find its lines; boxes to tick and to choose from take none.
export function takesLetters(tag: string, type: string | null): boolean {
  if (tag === "SELECT" || tag === "TEXTAREA") return true;
  return tag === "INPUT" && !["checkbox", "radio", "file", "button"].includes(type ?? "text");
}

function toNextOom(): void {
  const ooms = shown.value?.ooms ?? [];
  const next = ooms.find((oom) => oom.entry > moment.value) ?? ooms[0];
  if (next) moveCursor(next.entry);
}

function swapMoments(): void {
  if (compareCursor.value === null) return;
  const other = compareCursor.value;
  compareCursor.value = moment.value;
  cursor.value = other;
}

function nextDocument(): void {
  const count = scene.value?.documents.length ?? 1;
  showDocument((documentNumber.value + 1) % count);
}

// At once where the table is shown; else as soon as it is.
function focusSearch(): void {
  view.value = "table";
  const field = () => document.querySelector<HTMLInputElement>("input[type=search]");
  if (field()) field()!.focus();
  else requestAnimationFrame(() => field()?.focus());
}
