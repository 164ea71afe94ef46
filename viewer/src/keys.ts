// SPDX-License-Identifier: Apache-2.0
//
// Keyboard shortcuts, in one table from which the help page is generated. A view registers its own
// keys while it is shown.
import { signal } from "@preact/signals";
import { kGroupings } from "./api/scene.ts";
import { kAxisKinds } from "./model/axis.ts";
import { groupings, moment, moveCursor, scene, shown, stepCursor } from "./session.ts";
import {
  axisKind,
  category,
  colorBy,
  compareCursor,
  cursor,
  documentNumber,
  grouping,
  kColorings,
  kViews,
  selection,
  showDocument,
  type View,
  view,
} from "./state.ts";
import { switchTheme } from "./theme.ts";

export interface Key {
  keys: string[]; // values of KeyboardEvent.key, with prefix "Shift+" where shift matters
  description: string;
  run: (key: string) => void;
  worksAlways?: boolean; // works even without a document and while help is shown
}

export const helpShown = signal(false);

const kLargeStepsPerDocument = 100;

const kViewKeys: Record<string, View> = Object.fromEntries(
  kViews.map((name) => [keyOfView(name), name]),
);

// Digits select views in the order of the tabs; `l` selects the live view, which few pages have.
export function keyOfView(name: View): string {
  return name === "live" ? "l" : String(kViews.indexOf(name) + 1);
}

export const kGlobalKeys: Key[] = [
  {
    keys: Object.keys(kViewKeys),
    description: `show ${Object.values(kViewKeys).join(", ")}`,
    run: (key) => (view.value = kViewKeys[key]),
  },
  {
    keys: ["[", "]"],
    description: "previous, next entry",
    run: (key) => stepCursor(key === "[" ? -1 : 1),
  },
  {
    keys: ["{", "}"],
    description: "1 % of the trace back, forward",
    run: (key) => stepCursor((key === "{" ? -1 : 1) * largeStep()),
  },
  { keys: ["p"], description: "go to the peak", run: () => (cursor.value = null) },
  { keys: ["o"], description: "go to the next out-of-memory failure", run: () => toNextOom() },
  {
    keys: ["b"],
    description: "compare: set or clear the second moment",
    run: () => (compareCursor.value = compareCursor.value === null ? moment.value : null),
  },
  { keys: ["x"], description: "compare: swap the two moments", run: () => swapMoments() },
  {
    keys: ["g"],
    description: `group by ${kGroupings.join(", ")}`,
    run: () => (grouping.value = after(grouping.value, groupings.value)),
  },
  {
    keys: ["c"],
    description: "colour by stack, category",
    run: () => (colorBy.value = after(colorBy.value, kColorings)),
  },
  {
    keys: ["h"],
    description: "horizontal axis: entry, time",
    run: () => (axisKind.value = after(axisKind.value, kAxisKinds)),
  },
  { keys: ["n"], description: "next document", run: () => nextDocument() },
  { keys: ["/"], description: "search the flame graph or the table", run: () => focusSearch() },
  { keys: ["t"], description: "light or dark theme", run: () => switchTheme(), worksAlways: true },
  { keys: ["Escape"], description: "clear the selection", run: () => clearSelection() },
  {
    keys: ["?"],
    description: "show this help",
    run: () => (helpShown.value = !helpShown.value),
    worksAlways: true,
  },
];

function after<T>(now: T, all: readonly T[]): T {
  return all[(all.indexOf(now) + 1) % all.length];
}

// The keys of the current view.
export const viewKeys = signal<Key[]>([]);

// Handles key events of the page. Elements with the focus handle keys first; events that they
// handled are ignored.
export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || isCommand(event) || isTyping(event)) return;
    const name = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
    const key = activeKeys().find((each) => each.keys.includes(name));
    if (!key) return;
    event.preventDefault();
    key.run(name);
  });
}

// Returns the keys that work now. While help is shown or no document is open, only some keys work.
function activeKeys(): Key[] {
  if (helpShown.value || !shown.value) return kGlobalKeys.filter((each) => each.worksAlways);
  return [...viewKeys.value, ...kGlobalKeys];
}

type Press = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">;

// Returns whether the key combination belongs to the browser or the system. On many keyboards,
// brackets are typed with Alt, which some systems report together with Ctrl.
export function isCommand(event: Press): boolean {
  if (event.altKey && "[]{}".includes(event.key)) return event.metaKey;
  return event.ctrlKey || event.metaKey || event.altKey;
}

export function largeStep(): number {
  const entries = shown.value?.entries ?? 0;
  return Math.max(1, Math.round(entries / kLargeStepsPerDocument));
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  if (!target || !acceptsText(target.tagName, target.getAttribute("type"))) return false;
  if (event.key === "Escape") target.blur();
  return true;
}

// Returns whether the element handles letter keys itself. Text fields do, and so do lists, which
// search by letter; checkboxes and similar inputs do not.
export function acceptsText(tag: string, type: string | null): boolean {
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

function clearSelection(): void {
  selection.value = null;
  category.value = null;
}

// Focuses the search field immediately, or after the table has been rendered.
function focusSearch(): void {
  if (view.value !== "flame") view.value = "table";
  const field = () => document.querySelector<HTMLInputElement>("input[type=search]");
  if (field()) field()!.focus();
  else requestAnimationFrame(() => field()?.focus());
}
