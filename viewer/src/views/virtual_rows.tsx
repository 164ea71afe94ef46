// SPDX-License-Identifier: Apache-2.0
//
// A virtual list: many rows of equal height, of which only the visible rows and a few neighbours
// are rendered. Arrow keys move between rows, Enter chooses the active row.
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from "@tanstack/virtual-core";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import { isCommand } from "../keys.ts";

export const kRowHeight = 28;
// Maximum number of rows in a list: browsers do not draw boxes higher than about 33 million pixels.
export const kMaxRows = 1_000_000;

// Attributes of a row's element.
export interface RowPlace {
  id: string;
  "aria-rowindex": number;
  "data-active": boolean | undefined; // the row with the keyboard focus
}

interface VirtualRowsProps {
  label: string;
  head: ComponentChildren;
  count: number;
  resetOn: string; // the list scrolls to the top when this value changes
  row: (index: number, place: RowPlace) => ComponentChildren;
  onChoose: (index: number) => void;
  onSeen?: (first: number, last: number) => void;
}

export function VirtualRows({
  label,
  head,
  count,
  resetOn,
  row,
  onChoose,
  onSeen,
}: VirtualRowsProps) {
  const host = useRef<HTMLDivElement>(null);
  const name = useId();
  const [active, setActive] = useState(-1);
  const [, redraw] = useReducer((times: number) => times + 1, 0);
  const options = {
    count: Math.min(count, kMaxRows),
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
    setActive(-1);
  }, [resetOn]);
  const seen = rows.getVirtualItems();
  const first = seen[0]?.index ?? 0;
  const last = seen[seen.length - 1]?.index ?? 0;
  useEffect(() => onSeen?.(first, last), [first, last, resetOn]);
  const press = (event: KeyboardEvent) => {
    // Ignores keys in the head, whose buttons handle them.
    if (event.target !== event.currentTarget || isCommand(event)) return;
    const page = Math.max(1, Math.floor(host.current!.clientHeight / kRowHeight) - 1);
    const next = rowAfter(event.key, { active, page, count: options.count });
    if (next !== null) {
      setActive(next);
      rows.scrollToIndex(next);
    } else if (event.key === "Enter" && active >= 0 && active < count) onChoose(active);
    else return;
    event.preventDefault();
  };
  const rowId = (index: number) => `${name}-${index}`;
  return (
    <div
      class="grid"
      role="grid"
      aria-label={label}
      aria-rowcount={count}
      aria-activedescendant={active >= first && active <= last ? rowId(active) : undefined}
      tabIndex={0}
      onKeyDown={press}
    >
      {head}
      <div class="rows" ref={host} role="rowgroup">
        <div
          style={{ height: `${rows.getTotalSize()}px`, position: "relative" }}
          role="presentation"
        >
          {seen.map((item) => (
            <div
              key={item.index}
              class="row-place"
              role="presentation"
              style={{ transform: `translateY(${item.start}px)`, height: `${kRowHeight}px` }}
            >
              {row(item.index, {
                id: rowId(item.index),
                "aria-rowindex": item.index + 1,
                "data-active": item.index === active || undefined,
              })}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

// Returns the row that a key moves to; null: not a navigation key.
export function rowAfter(
  key: string,
  from: { active: number; page: number; count: number },
): number | null {
  const steps: Record<string, number> = {
    ArrowUp: -1,
    ArrowDown: 1,
    PageUp: -from.page,
    PageDown: from.page,
    Home: -Infinity,
    End: Infinity,
  };
  if (!(key in steps) || from.count === 0) return null;
  return Math.min(from.count - 1, Math.max(0, from.active + steps[key]));
}
