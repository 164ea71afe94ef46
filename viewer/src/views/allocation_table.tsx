// SPDX-License-Identifier: Apache-2.0
//
// The table of allocations. The server sorts, searches, and returns rows page by page. A
// self-contained file has the first rows of each sort order, which are searched here.
import { useEffect, useRef, useState } from "preact/hooks";
import { kRowsPerRequest } from "../api/client.ts";
import { type AllocationRows, kNone, type RowsQuery, type SortKey } from "../api/scene.ts";
import { cssColor } from "../model/colors.ts";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatEntries,
  plural,
} from "../model/format.ts";
import { hasFrame, stackTitle } from "../model/frames.ts";
import { firstPage, type Pages, withError, withPage } from "../model/row_pages.ts";
import { client, coloring, isFile, messageOf, shown, stacks } from "../session.ts";
import { allocationSorting, category, documentNumber, isSelected, select } from "../state.ts";
import { theme } from "../theme.ts";
import { Cell, type Column, TableHead } from "./table_parts.tsx";
import { kMaxRows, type RowPlace, VirtualRows } from "./virtual_rows.tsx";

const kColumns: Column<SortKey>[] = [
  { key: "bytes", title: "size", isNumber: true },
  { key: "made", title: "allocated at", isNumber: true },
  { key: "freed", title: "freed at", isNumber: true },
  { key: "age", title: "lived", isNumber: true },
  { key: null, title: "stream", isNumber: false },
  { key: null, title: "pool", isNumber: false },
  { key: null, title: "category", isNumber: false },
  { key: null, title: "allocated by", isNumber: false },
];

interface Place {
  rows: AllocationRows;
  row: number;
}

interface AllocationList {
  total: number;
  find: (index: number) => Place | null;
  note: string;
}

export function AllocationTable(props: { at: number | "all"; search: string }) {
  const number = documentNumber.value;
  const wanted = {
    sort: allocationSorting.value.key,
    order: allocationSorting.value.order,
    at: props.at,
    search: props.search,
    category: category.value,
  };
  const { listed, see, error } = isFile.value
    ? useFileRows(number, wanted)
    : useServerRows(number, wanted);
  return (
    <div class="table allocations" data-total={listed?.total}>
      {error && <p class="empty">{error}</p>}
      <VirtualRows
        label="Allocations"
        head={<TableHead columns={kColumns} sorting={allocationSorting} />}
        count={listed?.total ?? 0}
        resetOn={JSON.stringify([number, wanted])}
        row={(index, at) => <Row place={listed!.find(index)} at={at} />}
        onChoose={(index) => choose(listed!.find(index))}
        onSeen={see}
      />
      <p class="status">
        {listed && `${plural(listed.total, "allocation")}${listed.note}`}
        {listed && listed.total > kMaxRows && `; the first ${formatCount(kMaxRows)} are listed`}
      </p>
    </div>
  );
}

type TableQuery = Omit<RowsQuery, "from">;
interface Rows {
  listed: AllocationList | null;
  error: string | null;
  see: (first: number, last: number) => void;
}

function useServerRows(number: number, wanted: TableQuery): Rows {
  const name = JSON.stringify([number, wanted]);
  const seen = useRef<[first: number, last: number]>([0, 0]);
  const [kept, setKept] = useState<Pages<AllocationRows>>({
    of: "",
    pages: new Map(),
    error: null,
  });
  const fetchPage = (page: number) =>
    client.peek()!.rows(number, { ...wanted, from: page * kRowsPerRequest });
  useEffect(() => {
    let isWanted = true;
    // Debounce typing.
    const timer = setTimeout(
      () => {
        fetchPage(0).then(
          (rows) => isWanted && setKept(firstPage(name, rows)),
          (problem) =>
            isWanted && setKept({ of: name, pages: new Map(), error: messageOf(problem) }),
        );
      },
      wanted.search ? 150 : 0,
    );
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [name]);
  const see = (first: number, last: number) => {
    seen.current = [first, last];
    if (kept.of !== name) return;
    for (const page of new Set([first, last].map((row) => Math.floor(row / kRowsPerRequest)))) {
      if (kept.pages.has(page)) continue;
      fetchPage(page).then(
        (rows) => setKept((old) => withPage(old, name, page, rows)),
        (problem) => setKept((old) => withError(old, name, messageOf(problem))),
      );
    }
  };
  // Requests the visible rows again, because the user may have scrolled before the first page
  // arrived.
  useEffect(() => see(...seen.current), [kept.of]);
  const first = kept.pages.get(0);
  if (!first) return { listed: null, error: kept.error, see };
  const find = (index: number) => {
    const rows = kept.pages.get(Math.floor(index / kRowsPerRequest));
    return rows ? { rows, row: index % kRowsPerRequest } : null;
  };
  return { listed: { total: first.total, find, note: "" }, error: kept.error, see };
}

function useFileRows(number: number, wanted: TableQuery): Rows {
  const [rows, setRows] = useState<AllocationRows | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let isWanted = true;
    const request: RowsQuery = { ...wanted, at: "all", search: "", from: 0, category: null };
    setError(null);
    client
      .peek()!
      .rows(number, request)
      .then(
        (found) => isWanted && setRows(found),
        (problem) => isWanted && setError(messageOf(problem)),
      );
    return () => {
      isWanted = false;
    };
  }, [number, wanted.sort, wanted.order]);
  const see = () => {};
  if (!rows) return { listed: null, error, see };
  const matching = [...rows.id.keys()].filter((row) => matches(rows, row, wanted));
  const isPart = rows.total > rows.id.length;
  const note = isPart
    ? ` among the first ${formatCount(rows.id.length)} of ${formatCount(rows.total)}` +
      ", which is what this file holds"
    : "";
  const find = (index: number) => ({ rows, row: matching[index] });
  return { listed: { total: matching.length, find, note }, error, see };
}

function matches(rows: AllocationRows, row: number, wanted: TableQuery): boolean {
  if (wanted.at !== "all") {
    if (rows.made[row] !== kNone && rows.made[row] > wanted.at) return false;
    if (rows.freed[row] !== kNone && rows.freed[row] <= wanted.at) return false;
  }
  if (wanted.category !== null && rows.category[row] !== wanted.category) return false;
  return !wanted.search || hasFrame(stacks.value, rows.stack[row], wanted.search);
}

function choose(place: Place | null): void {
  if (place) select("allocation", place.rows.id[place.row]);
}

function Row({ place, at }: { place: Place | null; at: RowPlace }) {
  if (!place) return <div class="row" role="row" {...at} />;
  const { rows, row } = place;
  const id = rows.id[row];
  const made = rows.made[row];
  const freed = rows.freed[row];
  const document = shown.value!;
  const by = coloring.value.ofAllocation(id, rows.stack[row], rows.category[row]);
  return (
    <div
      class={`row${isSelected("stack", rows.stack[row]) ? " related" : ""}`}
      role="row"
      aria-selected={isSelected("allocation", id)}
      data-id={id}
      onClick={() => choose(place)}
      {...at}
    >
      <Cell>{formatBytes(rows.bytes[row])}</Cell>
      <Cell>{made === kNone ? "before" : formatCount(made)}</Cell>
      <Cell>{freed === kNone ? "never" : formatCount(freed)}</Cell>
      <Cell>{livedText(rows, row)}</Cell>
      <Cell class="">{document.streams[rows.stream[row]] ?? ""}</Cell>
      <Cell class="">{document.pools[rows.pool[row]] ?? ""}</Cell>
      <Cell class="">{document.categories[rows.category[row]] ?? ""}</Cell>
      <Cell class="frame">
        <i class="swatch" style={{ background: cssColor(by.coloring.of(by.id, theme.value)) }} />
        {stackTitle(stacks.value, rows.stack[row])}
      </Cell>
    </div>
  );
}

function livedText(rows: AllocationRows, row: number): string {
  if (rows.freed[row] === kNone) return "never";
  if (rows.made[row] === kNone) return "–";
  const us = rows.freed_us[row] - rows.made_us[row];
  if (Number.isFinite(us)) return formatDuration(Math.max(0, us));
  return formatEntries(rows.freed[row] - rows.made[row]);
}
