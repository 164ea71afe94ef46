// SPDX-License-Identifier: Apache-2.0
//
// What is open: the scene, how far reading is, what went wrong, and of the shown document what
// every view needs. Views ask `answers` for the rest.
import { computed, effect, signal } from "@preact/signals";
import { Answers } from "./ask/answers.ts";
import type { DocumentScene, Scene, StackBytes, Stacks } from "./ask/scene.ts";
import type { Source } from "./ask/source.ts";
import { Coloring } from "./model/colors.ts";
import { hasStacks } from "./model/frames.ts";
import { clampSpan, type Span, wholeSpan } from "./model/tiles.ts";
import { compareCursor, cursor, documentNumber, showDocument, span } from "./state.ts";

export const answers = signal<Answers | null>(null);
export const scene = signal<Scene | null>(null);
export const waiting = signal<{ what: string; done: number | null } | null>(null);
export const failure = signal<string | null>(null); // nothing can be shown
export const notice = signal<string | null>(null); // something could not be done, the rest is there

export const shown = computed<DocumentScene | null>(
  () => scene.value?.documents[documentNumber.value] ?? null,
);
export const isFile = computed(() => answers.value?.source.kind === "file");

// The moment that views show, and the one they compare it with.
export const moment = computed(() => momentOf(shown.value, cursor.value));
export const otherMoment = computed(() =>
  compareCursor.value === null ? null : momentOf(shown.value, compareCursor.value),
);

// What of the run the timeline shows; an address may name what is not there.
export const shownSpan = computed<Span>(() => {
  const document = shown.value;
  if (!document) return { from: 0, to: 1 };
  return span.value ? clampSpan(document, span.value) : wholeSpan(document);
});

export const stacks = signal<Stacks | null>(null);
const peakStacks = signal<StackBytes | null>(null);
export const stacksRecorded = computed(() => hasStacks(stacks.value));

// Stacks by what they hold at the peak; allocations have their stack's colour, or, where there are
// no stacks, one by their number.
const byRank = computed(() => new Coloring(peakStacks.value?.stack ?? []));
const byNumber = new Coloring([]);
export const coloring = computed(() => ({
  stack: byRank.value,
  other: byNumber,
  ofAllocation: (id: number, stack: number) =>
    stacksRecorded.value ? { coloring: byRank.value, id: stack } : { coloring: byNumber, id },
}));

export async function start(source: Source): Promise<void> {
  answers.value = new Answers(source);
  effect(() => {
    const count = scene.value?.documents.length ?? 0;
    if (count > 0 && documentNumber.value >= count) showDocument(0); // as an address may say
  });
  await readScene();
  followDocument();
}

export async function readScene(): Promise<void> {
  try {
    const found = await answers.value!.scene((loading) => {
      waiting.value = { what: loading.what, done: loading.done };
    });
    if (found.documents.length === 0) throw new Error("There is no trace in this file.");
    scene.value = found;
    failure.value = null;
  } catch (problem) {
    if (scene.value) notice.value = messageOf(problem);
    else failure.value = messageOf(problem);
  } finally {
    waiting.value = null;
  }
}

// Reads files beside the ones there are, and shows the first that could be read.
export async function openFiles(files: Iterable<File>): Promise<void> {
  const before = scene.value?.documents.length ?? 0;
  const problems: string[] = [];
  notice.value = null;
  for (const file of files) {
    waiting.value = { what: `reading ${file.name}`, done: null };
    try {
      await answers.value!.source.open(file.name, file);
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

// A self-contained file has answers for some moments only: the nearest of them is as good as it
// gets.
export function momentOf(document: DocumentScene | null, at: number | null): number {
  if (!document) return 0;
  const wanted = Math.min(at ?? document.peak.entry, Math.max(0, document.entries - 1));
  if (!document.moments || document.moments.length === 0) return wanted;
  return document.moments.reduce((best, candidate) =>
    Math.abs(candidate - wanted) < Math.abs(best - wanted) ? candidate : best,
  );
}

export function moveCursor(entry: number): void {
  const last = Math.max(0, (shown.value?.entries ?? 1) - 1);
  cursor.value = Math.min(last, Math.max(0, Math.round(entry)));
}

// By one moment, or by more; a self-contained file steps through the moments it has.
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
    if (!document || !answers.value) return;
    stacks.value = null;
    peakStacks.value = null;
    const peak = momentOf(document, document.peak.entry);
    void Promise.all([
      answers.value.stacks(number),
      answers.value.stackBytes(number, peak).catch(() => null),
    ])
      .then(([found, ranked]) => {
        if (documentNumber.peek() !== number) return;
        peakStacks.value = ranked;
        stacks.value = found;
      })
      .catch((problem) => (notice.value = messageOf(problem)));
  });
}
