// SPDX-License-Identifier: Apache-2.0
//
// A hook for requests from a view. The previous response stays until the next one arrives, so that
// views do not flicker while the cursor moves; it is dropped when the document changes.
import { useEffect, useState } from "preact/hooks";
import { type StackUse, stackUse } from "../model/stack_use.ts";
import { client, messageOf, moment, otherMoment } from "../session.ts";
import { documentNumber } from "../state.ts";

export interface RequestState<T> {
  value: T | null;
  error: string | null;
}

// A request of a view. `isWanted` lets long requests stop early.
export type Request<T> = (isWanted: () => boolean) => Promise<T>;

const kDebounceMs = 40; // time without changes before a request is sent, while keys repeat
const kNothing = { value: null, error: null };

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
  return useRequest(async () => {
    const request = client.peek()!;
    const [now, before] = await Promise.all([
      request.stackBytes(number, at),
      other === null ? null : request.stackBytes(number, other),
    ]);
    return stackUse(now, before);
  }, `${number} ${at} ${other}`);
}
