// SPDX-License-Identifier: Apache-2.0
//
// Shown before a document is open: progress or the error.
import { failure, isFile, waiting } from "../session.ts";
import { capitalize } from "../model/format.ts";
import { ChooseFile } from "./choose_file.tsx";
import { Blocks } from "./header.tsx";

export function Loading() {
  const done = waiting.value?.done ?? null;
  return (
    <div class="start-page" data-start-page="loading">
      <Blocks />
      <h1>{waiting.value ? capitalize(waiting.value.what) : "Opening"}</h1>
      <progress max={1} value={done ?? undefined} />
      <p>
        {done === null ? "" : `${Math.round(100 * done)} % · `}
        Large traces take a few seconds. Everything is computed on your machine; nothing leaves it.
      </p>
    </div>
  );
}

export function Failed() {
  return (
    <div class="start-page" data-start-page="failed">
      <Blocks />
      <h1>Cannot open this file</h1>
      <p class="reason" role="alert">
        {failure.value}
      </p>
      {!isFile.value && (
        <>
          <p>
            Ashlar reads files of <code>torch.cuda.memory._dump_snapshot</code> and{" "}
            <code>save_snapshot</code>, plain or compressed (.xz, .zst, .gz). Drop one here, or
          </p>
          <ChooseFile class="button">Choose a file…</ChooseFile>
        </>
      )}
    </div>
  );
}
