// SPDX-License-Identifier: Apache-2.0
//
// Where answers come from. Questions and answers are those of docs/formats/view.md; a source knows
// their text and bytes, and nothing of what they mean.

export interface Source {
  // A self-contained file can answer only what was packed into it.
  readonly kind: "server" | "file";
  // The answer's bytes. Fails with StillLoading or Refused.
  get(question: string): Promise<ArrayBuffer>;
  // Hands over a file to be read beside the ones there are.
  open(name: string, file: Blob): Promise<void>;
  // Has a snapshot taken of the process that is being watched.
  takeSnapshot(): Promise<void>;
}

// The answer is being computed; it is worth asking again.
export class StillLoading extends Error {
  constructor(
    readonly what: string,
    readonly done: number | null,
  ) {
    super(what);
  }
}

// There is no answer, and asking again will not help. The message is one for people.
export class Refused extends Error {}

// The process that was being watched has ended.
export class Gone extends Refused {}

const kPatience = 250; // milliseconds between two times of asking for what is still being computed

export interface Patience {
  progress: (loading: StillLoading) => void;
  isWanted?: () => boolean; // whether anybody still waits for the answer
}

// Asks until there is an answer, and tells how far it is. Fails with StillLoading when nobody wants
// it any more.
export async function getPatiently(
  source: Source,
  question: string,
  { progress, isWanted }: Patience,
): Promise<ArrayBuffer> {
  for (;;) {
    try {
      return await source.get(question);
    } catch (failure) {
      if (!(failure instanceof StillLoading)) throw failure;
      progress(failure);
      await new Promise((resume) => setTimeout(resume, kPatience));
      if (isWanted && !isWanted()) throw failure;
    }
  }
}

export function parseJson<T>(bytes: ArrayBuffer): T {
  return JSON.parse(new TextDecoder().decode(bytes)) as T;
}
