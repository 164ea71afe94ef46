// SPDX-License-Identifier: Apache-2.0
//
// Live monitoring: polls the statistics of the process once a second while the page is open, so
// that curves have no gaps while other views are shown; and takes snapshots.
import { signal } from "@preact/signals";
import { ProcessEnded } from "./api/source.ts";
import { type LiveSample, withSample } from "./model/live.ts";
import { client, messageOf, notice, readScene, scene, waiting } from "./session.ts";
import { showDocument } from "./state.ts";

const kIntervalMs = 1000;

export const samples = signal<LiveSample[]>([]);
// The error from the last request; null if that request succeeded.
export const liveError = signal<{ message: string; hasEnded: boolean } | null>(null);

// Polls until the process has ended.
export async function watch(): Promise<void> {
  for (;;) {
    await poll();
    if (liveError.value?.hasEnded) return;
    await new Promise((resume) => setTimeout(resume, kIntervalMs));
  }
}

export async function poll(): Promise<void> {
  try {
    samples.value = withSample(samples.value, await client.value!.live());
    liveError.value = null;
  } catch (problem) {
    liveError.value = { message: messageOf(problem), hasEnded: problem instanceof ProcessEnded };
  }
}

// Takes a snapshot of each allocator and shows the first snapshot in the other views. After an
// error, sets `notice` and returns false.
export async function takeSnapshot(): Promise<boolean> {
  waiting.value = { what: "taking a snapshot", done: null };
  notice.value = null;
  const before = scene.value?.documents.length ?? 0;
  try {
    await client.value!.source.takeSnapshot();
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
