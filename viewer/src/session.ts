// SPDX-License-Identifier: Apache-2.0
//
// The open documents: the scene, loading progress, errors, and the data of the current document
// that all views share. Views request everything else from `client`.
import { computed, effect, signal } from "@preact/signals";
import { ViewClient } from "./api/client.ts";
import {
  type Clock,
  type DocumentScene,
  kGroupings,
  type Scene,
  type StackBytes,
  type Stacks,
} from "./api/scene.ts";
import type { Source } from "./api/source.ts";
import { type Axis, clampSpan, entryAxis, timeAxis, wholeSpan } from "./model/axis.ts";
import { CategoryColoring, Coloring } from "./model/colors.ts";
import { hasStacks } from "./model/frames.ts";
import type { Span } from "./model/tiles.ts";
import {
  axisKind,
  colorBy,
  compareCursor,
  cursor,
  documentNumber,
  showDocument,
  span,
} from "./state.ts";
import { setDefaultDocument } from "./url.ts";

const kUnknownCategory = "unknown"; // the category of allocations to which no rule applies

export const client = signal<ViewClient | null>(null);
export const scene = signal<Scene | null>(null);
export const waiting = signal<{ what: string; done: number | null } | null>(null);
export const failure = signal<string | null>(null); // fatal error: nothing can be shown
export const notice = signal<string | null>(null); // error after which the page keeps working

export const shown = computed<DocumentScene | null>(
  () => scene.value?.documents[documentNumber.value] ?? null,
);
export const isFile = computed(() => client.value?.source.kind === "file");

// The moment that views show, and the moment to compare with; null: no comparison.
export const moment = computed(() => momentOf(shown.value, cursor.value));
export const otherMoment = computed(() =>
  compareCursor.value === null ? null : momentOf(shown.value, compareCursor.value),
);

// The times of the document; null while they are loading, or if they are not available.
const clock = signal<Clock | null>(null);
const times = computed(() => timeAxis(shown.value?.entries ?? 0, clock.value));
export const hasTimes = computed(() => times.value !== null);

// The horizontal axis. Without times, entries are shown even if the URL asks for times.
export const axis = computed<Axis>(() => {
  const byTime = axisKind.value === "time" ? times.value : null;
  return byTime ?? entryAxis(shown.value?.entries ?? 0);
});

// The entries that the timeline shows. They are clamped, because the URL may contain any range.
export const shownSpan = computed<Span>(() =>
  span.value ? clampSpan(axis.value, span.value) : wholeSpan(axis.value),
);

export const stacks = signal<Stacks | null>(null);
const peakStacks = signal<StackBytes | null>(null);
export const stacksRecorded = computed(() => hasStacks(stacks.value));

// Stacks are coloured by their rank at the peak. If colouring by category is chosen, allocations
// have the colour of their category. Otherwise they have the colour of their stack or, if no stacks
// were recorded, a colour derived from their id.
const rankedColoring = computed(() => new Coloring(peakStacks.value?.stack ?? []));
const idColoring = new Coloring([]);
const categoryColoring = computed(() => new CategoryColoring(shown.value?.categories ?? []));
export const coloring = computed(() => {
  const byCategory = colorBy.value === "category" && hasCategories.value;
  return {
    by: byCategory ? ("category" as const) : ("stack" as const),
    stack: rankedColoring.value,
    category: categoryColoring.value,
    other: idColoring,
    ofAllocation: (id: number, stack: number, category: number) => {
      if (byCategory) return { coloring: categoryColoring.value, id: category };
      return stacksRecorded.value
        ? { coloring: rankedColoring.value, id: stack }
        : { coloring: idColoring, id };
    },
  };
});

// Whether any memory at the peak has a category.
export const hasCategories = computed(() => {
  const names = shown.value?.categories ?? [];
  const split = peakStacks.value?.split;
  return (
    split !== undefined && [...split.category].some((each) => names[each] !== kUnknownCategory)
  );
});

// The groupings that are useful for the document.
export const groupings = computed(() =>
  kGroupings.filter((name) => name !== "category" || hasCategories.value),
);

export async function start(source: Source): Promise<void> {
  client.value = new ViewClient(source);
  effect(() => {
    const count = scene.value?.documents.length ?? 0;
    if (count > 0 && documentNumber.value >= count) showDocument(0); // the URL may be invalid
  });
  await readScene();
  followDocument();
}

export async function readScene(): Promise<void> {
  try {
    const found = await client.value!.scene((loading) => {
      waiting.value = { what: loading.what, done: loading.done };
    });
    if (found.documents.length === 0) throw new Error("This file contains no trace.");
    if (!scene.value) setDefaultDocument(found.default_document);
    scene.value = found;
    failure.value = null;
  } catch (problem) {
    if (scene.value) notice.value = messageOf(problem);
    else failure.value = messageOf(problem);
  } finally {
    waiting.value = null;
  }
}

// Opens additional files and shows the first file that could be read.
export async function openFiles(files: Iterable<File>): Promise<void> {
  const before = scene.value?.documents.length ?? 0;
  const problems: string[] = [];
  notice.value = null;
  for (const file of files) {
    waiting.value = { what: `reading ${file.name}`, done: null };
    try {
      await client.value!.source.open(file.name, file);
      await readScene();
    } catch (problem) {
      problems.push(messageOf(problem));
    }
    waiting.value = null;
  }
  if ((scene.value?.documents.length ?? 0) > before) showDocument(before);
  if (problems.length === 0) return;
  if (scene.value) notice.value = problems.join(" ");
  else failure.value = problems.join(" ");
}

export function messageOf(problem: unknown): string {
  return problem instanceof Error ? problem.message : String(problem);
}

// Returns the moment to show for the cursor `at`; null means the peak. A self-contained file has
// data only for some moments, so the nearest of these is returned.
export function momentOf(document: DocumentScene | null, at: number | null): number {
  if (!document) return 0;
  const wanted = Math.min(at ?? document.reserved_peak.entry, Math.max(0, document.entries - 1));
  if (!document.moments || document.moments.length === 0) return wanted;
  return document.moments.reduce((best, candidate) =>
    Math.abs(candidate - wanted) < Math.abs(best - wanted) ? candidate : best,
  );
}

export function moveCursor(entry: number): void {
  const last = Math.max(0, (shown.value?.entries ?? 1) - 1);
  cursor.value = Math.min(last, Math.max(0, Math.round(entry)));
}

// Moves the cursor by `by` entries; in a self-contained file, to the next available moment.
export function stepCursor(by: number): void {
  const moments = shown.value?.moments;
  if (!moments || moments.length === 0) return moveCursor(moment.value + by);
  const at = moments.indexOf(moment.value) + Math.sign(by);
  moveCursor(moments[Math.min(moments.length - 1, Math.max(0, at))]);
}

function followDocument(): void {
  effect(() => {
    const number = documentNumber.value;
    const document = shown.value;
    if (!document || !client.value) return;
    stacks.value = null;
    peakStacks.value = null;
    clock.value = null;
    client.value.clock(number).then(
      (found) => documentNumber.peek() === number && (clock.value = found),
      () => {}, // a self-contained file may have no times
    );
    const peak = momentOf(document, document.reserved_peak.entry);
    void Promise.all([
      client.value.stacks(number),
      client.value.stackBytes(number, peak).catch(() => null),
    ])
      .then(([found, ranked]) => {
        if (documentNumber.peek() !== number) return;
        peakStacks.value = ranked;
        stacks.value = found;
      })
      .catch((problem) => (notice.value = messageOf(problem)));
  });
}
