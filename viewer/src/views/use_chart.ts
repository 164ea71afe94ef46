// SPDX-License-Identifier: Apache-2.0
//
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

// Calls these by the names of their events; the answer ends that.
export function listenTo<Handler extends (event: never) => void>(
  host: HTMLElement,
  events: Record<string, Handler>,
): () => void {
  const controller = new AbortController();
  const { signal } = controller;
  for (const [name, handler] of Object.entries(events)) {
    host.addEventListener(name, handler as unknown as EventListener, { passive: false, signal });
  }
  return () => controller.abort();
}

// Right of the pointer and below it, or where there is room in the host. `size` is the most that is
// to be placed there.
export function besidePointer(
  host: Element,
  at: { x: number; y: number },
  size: { wide: number; high: number },
): { left: number; top: number } {
  const gap = 16;
  const isRoom = at.x + gap + size.wide <= host.clientWidth;
  const left = isRoom ? at.x + gap : at.x - gap - size.wide;
  const top = Math.min(at.y + gap, host.clientHeight - size.high);
  return { left: Math.max(4, left), top: Math.max(4, top) };
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
