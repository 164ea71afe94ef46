// A question asked while a view is shown. The last answer stays until the next one is there, so
// that views do not flicker while the cursor moves.
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../session.ts";

export interface Answered<T> {
  value: T | null;
  error: string | null;
  fresh: boolean; // whether the value answers the question as it is now
}

const kSettle = 40; // milliseconds a question must stand before it is asked, while keys repeat

export function useAnswer<T>(ask: (() => Promise<T>) | null, question: string): Answered<T> {
  const [state, setState] = useState<Answered<T> & { question: string }>({
    value: null,
    error: null,
    fresh: false,
    question: "",
  });
  useEffect(() => {
    if (!ask) return;
    let wanted = true;
    const timer = setTimeout(
      () => {
        ask().then(
          (value) => wanted && setState({ value, error: null, fresh: true, question }),
          (problem) =>
            wanted && setState({ value: null, error: messageOf(problem), fresh: true, question }),
        );
      },
      state.question === "" ? 0 : kSettle,
    );
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [question]);
  return { ...state, fresh: state.question === question };
}
