// A list of which only what is seen exists: any number of rows of one height, scrolled as one.
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

export const kRowHeight = 28;
// Browsers do not draw boxes higher than about 33 million pixels.
export const kMostRows = 1_000_000;

interface Rows {
  count: number;
  resetOn: string; // scrolls to the top when this changes
  row: (index: number) => ComponentChildren;
  onSeen?: (first: number, last: number) => void;
}

export function VirtualRows({ count, resetOn, row, onSeen }: Rows) {
  const host = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((times: number) => times + 1, 0);
  const options = {
    count: Math.min(count, kMostRows),
    getScrollElement: () => host.current,
    estimateSize: () => kRowHeight,
    overscan: 10,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw(0),
  };
  const [rows] = useState(() => new Virtualizer<HTMLDivElement, Element>(options));
  rows.setOptions(options);
  useLayoutEffect(() => rows._didMount(), []);
  useLayoutEffect(() => rows._willUpdate());
  useLayoutEffect(() => {
    host.current?.scrollTo({ top: 0 });
  }, [resetOn]);
  const seen = rows.getVirtualItems();
  const first = seen[0]?.index ?? 0;
  const last = seen[seen.length - 1]?.index ?? 0;
  useEffect(() => onSeen?.(first, last), [first, last, resetOn]);
  return (
    <div class="rows" ref={host} tabIndex={0} role="rowgroup">
      <div style={{ height: `${rows.getTotalSize()}px`, position: "relative" }}>
        {seen.map((item) => (
          <div
            key={item.index}
            class="row-place"
            style={{ transform: `translateY(${item.start}px)`, height: `${kRowHeight}px` }}
          >
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
