// What is seen before there is anything to see.
import { failure, isFile, openFile, waiting } from "../session.ts";
import { Blocks } from "./header.tsx";

export function Loading() {
  const done = waiting.value?.done ?? null;
  return (
    <div class="lobby" data-lobby="loading">
      <Blocks />
      <h1>{waiting.value ? sentence(waiting.value.what) : "Opening"}</h1>
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
    <div class="lobby" data-lobby="failed">
      <Blocks />
      <h1>This cannot be shown</h1>
      <p class="reason" role="alert">
        {failure.value}
      </p>
      {!isFile.value && (
        <>
          <p>
            Ashlar reads what <code>torch.cuda.memory._dump_snapshot</code> and{" "}
            <code>save_snapshot</code> write, plain or compressed (.xz, .zst, .gz). Drop one here,
            or
          </p>
          <label class="button">
            Choose a file…
            <input
              type="file"
              hidden
              onChange={(event) => {
                const file = event.currentTarget.files?.[0];
                if (file) void openFile(file);
              }}
            />
          </label>
        </>
      )}
    </div>
  );
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
