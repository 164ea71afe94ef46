// A chart that lives as long as the part of the page that it is drawn in.
import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";
import { type Key, viewKeys } from "../keys.ts";

// Calls `resized` whenever the host's size changes; the answer ends that.
export function watchSize(host: Element, resized: () => void): () => void {
  const sizes = new ResizeObserver(resized);
  sizes.observe(host);
  return () => sizes.disconnect();
}

interface Held<Chart> {
  make: (host: HTMLDivElement) => Chart;
  resized: (chart: Chart) => void;
  follow: (chart: Chart) => () => void; // draws anew when what it shows changes
  listen: (host: HTMLDivElement, chart: Chart) => () => void; // to gestures
  keys: Key[];
  release: (chart: Chart) => void;
}

// A chart that is the view: it has the view's keys, and ends with it.
export function useViewChart<Chart>(host: RefObject<HTMLDivElement>, held: Held<Chart>): void {
  useEffect(() => {
    const chart = held.make(host.current!);
    const endings = [
      held.follow(chart),
      watchSize(host.current!, () => held.resized(chart)),
      held.listen(host.current!, chart),
    ];
    viewKeys.value = held.keys;
    return () => {
      for (const end of endings) end();
      held.release(chart);
      viewKeys.value = [];
    };
  }, []);
}
