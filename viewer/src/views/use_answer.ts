// SPDX-License-Identifier: Apache-2.0
//
// A question asked while a view is shown. The last answer stays until the next one is there, so
// that views do not flicker while the cursor moves; but none about another document.
import { useEffect, useState } from "preact/hooks";
import { type StackUse, stackUse } from "../model/stack_use.ts";
import { answers, messageOf, moment, otherMoment } from "../session.ts";
import { documentNumber } from "../state.ts";

export interface Answered<T> {
  value: T | null;
  error: string | null;
}

// May ask whether the answer is still wanted, where it takes long.
export type Ask<T> = (isWanted: () => boolean) => Promise<T>;

const kSettle = 40; // milliseconds a question must stand before it is asked, while keys repeat
const kNothing = { value: null, error: null };

export function useAnswer<T>(ask: Ask<T> | null, question: string): Answered<T> {
  const shown = documentNumber.value;
  const [last, setLast] = useState<(Answered<T> & { shown: number }) | null>(null);
  useEffect(() => {
    if (!ask) return;
    let isWanted = true;
    const keep = (answered: Answered<T>) => isWanted && setLast({ ...answered, shown });
    const timer = setTimeout(
      () => {
        ask(() => isWanted).then(
          (value) => keep({ value, error: null }),
          (problem) => keep({ value: null, error: messageOf(problem) }),
        );
      },
      last === null ? 0 : kSettle,
    );
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [question, shown]);
  return last?.shown === shown ? last : kNothing;
}

// What each stack holds at the moment, and held at the other one.
export function useStackUse(): Answered<StackUse[]> {
  const [number, at, other] = [documentNumber.value, moment.value, otherMoment.value];
  return useAnswer(async () => {
    const ask = answers.peek()!;
    const [now, before] = await Promise.all([
      ask.stackBytes(number, at),
      other === null ? null : ask.stackBytes(number, other),
    ]);
    return stackUse(now, before);
  }, `${number} ${at} ${other}`);
}
