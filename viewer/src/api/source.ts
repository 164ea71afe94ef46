// SPDX-License-Identifier: Apache-2.0
//
// A source of data: transports the requests and responses in docs/reference/formats/view.md without
// interpreting them.

export interface Source {
  // "file" means a self-contained file, which has only the embedded responses.
  readonly kind: "server" | "file";
  // Returns the response's bytes. Throws StillLoading or RequestError.
  get(path: string): Promise<ArrayBuffer>;
  // Opens an additional file.
  open(name: string, file: Blob): Promise<void>;
  // Takes a snapshot of the monitored process.
  takeSnapshot(): Promise<void>;
}

// Thrown if the response is still being computed. The request should be retried later.
export class StillLoading extends Error {
  constructor(
    readonly what: string,
    readonly done: number | null,
  ) {
    super(what);
  }
}

// Thrown if the request failed. The message is meant for the user.
export class RequestError extends Error {}

// Thrown if the monitored process has ended or stopped live monitoring.
export class ProcessEnded extends RequestError {}

const kRetryDelay = 250; // milliseconds between retries

export interface RetryOptions {
  progress: (loading: StillLoading) => void;
  isWanted?: () => boolean; // returns false to stop retrying
}

// Retries until the response is ready, and reports progress. Throws StillLoading once `isWanted`
// returns false.
export async function getWithRetry(
  source: Source,
  path: string,
  { progress, isWanted }: RetryOptions,
): Promise<ArrayBuffer> {
  for (;;) {
    try {
      return await source.get(path);
    } catch (failure) {
      if (!(failure instanceof StillLoading)) throw failure;
      progress(failure);
      await new Promise((resume) => setTimeout(resume, kRetryDelay));
      if (isWanted && !isWanted()) throw failure;
    }
  }
}

export function parseJson<T>(bytes: ArrayBuffer): T {
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}
