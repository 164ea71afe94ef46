// SPDX-License-Identifier: Apache-2.0
//
// A hook for requests from a view. The previous response stays until the next response arrives, so
// that views do not flicker while the cursor moves. A response for another document is not used.
import { useEffect, useState } from "preact/hooks";
import type { Analyses } from "../api/client.ts";
import type { StackBytes } from "../api/scene.ts";
import { ofCategory, type StackUse, stackUse } from "../model/stack_use.ts";
import { client, messageOf, moment, otherMoment } from "../session.ts";
import { category, documentNumber } from "../state.ts";

export interface RequestState<T> {
  value: T | null;
  error: string | null;
}

// A request of a view. `isWanted` lets long requests stop early.
export type Request<T> = (isWanted: () => boolean) => Promise<T>;

const kDebounceMs = 40; // time without changes before a request is sent, for repeating keys
const kNothing = { value: null, error: null };

// Sends the request when `key` or the document changes. A null request is not sent.
export function useRequest<T>(request: Request<T> | null, key: string): RequestState<T> {
  const shown = documentNumber.value;
  const [last, setLast] = useState<(RequestState<T> & { shown: number }) | null>(null);
  useEffect(() => {
    if (!request) return;
    let isWanted = true;
    const keep = (result: RequestState<T>) => isWanted && setLast({ ...result, shown });
    const timer = setTimeout(
      () => {
        request(() => isWanted).then(
          (value) => keep({ value, error: null }),
          (problem) => keep({ value: null, error: messageOf(problem) }),
        );
      },
      last === null ? 0 : kDebounceMs,
    );
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [key, shown]);
  return last?.shown === shown ? last : kNothing;
}

// Returns the live bytes per stack at the current and the compared moment.
export function useStackUse(): RequestState<StackUse[]> {
  const [number, at, other] = [documentNumber.value, moment.value, otherMoment.value];
  const only = category.value;
  return useRequest(async () => {
    const request = client.peek()!;
    const [now, before] = await Promise.all([
      request.stackBytes(number, at),
      other === null ? null : request.stackBytes(number, other),
    ]);
    const pick = (all: StackBytes) => (only === null ? all : ofCategory(all, only));
    return stackUse(pick(now), before && pick(before));
  }, `${number} ${at} ${other} ${only}`);
}

// Requests the result of an analysis, which the server may compute in the background. Until the
// result arrives, `progress` describes the computation.
export function useAnalysis<Name extends keyof Analyses>(
  name: Name,
): RequestState<Analyses[Name]> & { progress: string } {
  const number = documentNumber.value;
  const [progress, setProgress] = useState("");
  const found = useRequest(
    (isWanted) =>
      client.peek()!.analysis(number, name, {
        progress: ({ what, done }) =>
          setProgress(what + (done === null ? "" : `, ${Math.round(100 * done)} %`)),
        isWanted,
      }),
    `${name} ${number}`,
  );
  return { ...found, progress };
}
