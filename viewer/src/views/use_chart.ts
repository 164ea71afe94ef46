// SPDX-License-Identifier: Apache-2.0
//
// Hooks that tie a chart to the lifetime of its element.
import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";
import { type Key, viewKeys } from "../keys.ts";

// Calls `resized` when the element's size changes. Returns a function that stops the calls.
export function watchSize(host: Element, resized: () => void): () => void {
  const sizes = new ResizeObserver(resized);
  sizes.observe(host);
  return () => sizes.disconnect();
}

// Adds event listeners by event name. Returns a function that removes them.
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

// Returns the position of a tooltip of at most `size`: to the right of and below the pointer. If
// the tooltip does not fit there, moves it to the left of the pointer, or up.
export function besidePointer(
  host: Element,
  at: { x: number; y: number },
  size: { width: number; height: number },
): { left: number; top: number } {
  const gap = 16;
  const fitsRight = at.x + gap + size.width <= host.clientWidth;
  const left = fitsRight ? at.x + gap : at.x - gap - size.width;
  const top = Math.min(at.y + gap, host.clientHeight - size.height);
  return { left: Math.max(4, left), top: Math.max(4, top) };
}

interface ChartBinding<Chart> {
  make: (host: HTMLDivElement) => Chart;
  resized: (chart: Chart) => void;
  follow: (chart: Chart) => () => void; // redraws on changes of state
  listen: (host: HTMLDivElement, chart: Chart) => () => void; // handles gestures
  keys: Key[];
  release: (chart: Chart) => void;
}

// Creates a chart that fills a view, and registers the view's keys.
export function useViewChart<Chart>(
  host: RefObject<HTMLDivElement>,
  binding: ChartBinding<Chart>,
): void {
  useEffect(() => {
    const chart = binding.make(host.current!);
    const endings = [
      binding.follow(chart),
      watchSize(host.current!, () => binding.resized(chart)),
      binding.listen(host.current!, chart),
    ];
    viewKeys.value = binding.keys;
    return () => {
      for (const end of endings) end();
      binding.release(chart);
      viewKeys.value = [];
    };
  }, []);
}
