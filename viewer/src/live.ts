// SPDX-License-Identifier: Apache-2.0
//
// Watching: asks the process for its numbers once a second for as long as the page is open, so that
// curves have no gaps while other views are shown; and takes snapshots of it.
import { signal } from "@preact/signals";
import { Gone } from "./ask/source.ts";
import { type LiveSample, withSample } from "./model/live.ts";
import { answers, messageOf, notice, readScene, scene, waiting } from "./session.ts";
import { showDocument } from "./state.ts";

const kEvery = 1000; // milliseconds

export const samples = signal<LiveSample[]>([]);
// What is wrong with the last look; null: nothing.
export const trouble = signal<{ says: string; isOver: boolean } | null>(null);

// Returns when the process has ended.
export async function watch(): Promise<void> {
  for (;;) {
    await look();
    if (trouble.value?.isOver) return;
    await new Promise((resume) => setTimeout(resume, kEvery));
  }
}

export async function look(): Promise<void> {
  try {
    samples.value = withSample(samples.value, await answers.value!.live());
    trouble.value = null;
  } catch (problem) {
    trouble.value = { says: messageOf(problem), isOver: problem instanceof Gone };
  }
}

// Takes one of each allocator, and shows the first in all other views.
export async function takeSnapshot(): Promise<boolean> {
  waiting.value = { what: "taking a snapshot", done: null };
  notice.value = null;
  const before = scene.value?.documents.length ?? 0;
  try {
    await answers.value!.source.takeSnapshot();
    await readScene();
    if ((scene.value?.documents.length ?? 0) > before) showDocument(before);
    return true;
  } catch (problem) {
    notice.value = messageOf(problem);
    return false;
  } finally {
    waiting.value = null;
  }
}
