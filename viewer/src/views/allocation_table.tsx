// The table of allocations. The server sorts and searches, and rows come by the page as they are
// scrolled to; a self-contained file has the first rows of each order, which are searched here.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { kRowsPerAnswer } from "../ask/answers.ts";
import { type AllocationRows, kNone, type RowsWanted, type SortKey } from "../ask/scene.ts";
import { cssColor } from "../model/colors.ts";
import { formatBytes, formatCount, formatDuration, plural } from "../model/format.ts";
import { framesOf, stackTitle } from "../model/frames.ts";
import { answers, coloring, isFile, messageOf, shown, stacks } from "../session.ts";
import { documentNumber, isSelected, select } from "../state.ts";
import { theme } from "../theme.ts";
import { type Column, TableHead } from "./table.tsx";
import { kMostRows, VirtualRows } from "./virtual_rows.tsx";

const kColumns: Column<SortKey>[] = [
  { key: "bytes", title: "size", isNumber: true },
  { key: "made", title: "made at", isNumber: true },
  { key: "freed", title: "freed at", isNumber: true },
  { key: "age", title: "lived", isNumber: true },
  { key: null, title: "stream", isNumber: false },
  { key: null, title: "pool", isNumber: false },
  { key: null, title: "made by", isNumber: false },
];

const sort = signal<SortKey>("bytes");
const order = signal<"up" | "down">("down");

interface Place {
  rows: AllocationRows;
  row: number;
}

interface Listed {
  total: number;
  find: (index: number) => Place | null;
  note: string;
}

export function AllocationTable(props: { at: number | "all"; search: string }) {
  const number = documentNumber.value;
  const wanted = { sort: sort.value, order: order.value, at: props.at, search: props.search };
  const { listed, see, error } = isFile.value
    ? useFileRows(number, wanted)
    : useServerRows(number, wanted);
  const turn = (key: SortKey) => {
    order.value = key === sort.value && order.value === "down" ? "up" : "down";
    sort.value = key;
  };
  return (
    <div class="table allocations" role="table" data-total={listed?.total}>
      <TableHead columns={kColumns} sort={sort.value} order={order.value} onSort={turn} />
      {error && <p class="empty">{error}</p>}
      {listed && (
        <VirtualRows
          count={listed.total}
          resetOn={JSON.stringify([number, wanted])}
          row={(index) => <Row place={listed.find(index)} />}
          onSeen={see}
        />
      )}
      <p class="status">
        {listed && `${plural(listed.total, "allocation")}${listed.note}`}
        {listed && listed.total > kMostRows && `; the first ${formatCount(kMostRows)} are listed`}
      </p>
    </div>
  );
}

type Wanted = Omit<RowsWanted, "from">;
interface Rows {
  listed: Listed | null;
  error: string | null;
  see: (first: number, last: number) => void;
}

function useServerRows(number: number, wanted: Wanted): Rows {
  const name = JSON.stringify([number, wanted]);
  const [pages, setPages] = useState(new Map<number, AllocationRows>());
  const [pagesOf, setPagesOf] = useState("");
  const [error, setError] = useState<string | null>(null);
  const fetchPage = (page: number, of: Map<number, AllocationRows>) =>
    answers
      .peek()!
      .rows(number, { ...wanted, from: page * kRowsPerAnswer })
      .then((rows) => new Map(of).set(page, rows));
  useEffect(() => {
    let isWanted = true;
    // While somebody types, only the last word is asked for.
    const timer = setTimeout(
      () => {
        fetchPage(0, new Map()).then(
          (next) => {
            if (!isWanted) return;
            setPages(next);
            setPagesOf(name);
            setError(null);
          },
          (problem) => isWanted && setError(messageOf(problem)),
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
    if (pagesOf !== name) return;
    for (const row of [first, last]) {
      const page = Math.floor(row / kRowsPerAnswer);
      if (pages.has(page)) continue;
      // Only a neighbourhood is kept: scrolling through millions must not fill the memory.
      const near = new Map([...pages].filter(([kept]) => kept === 0 || Math.abs(kept - page) < 8));
      fetchPage(page, near).then(setPages, (problem) => setError(messageOf(problem)));
    }
  };
  const first = pages.get(0);
  if (!first) return { listed: null, error, see };
  const find = (index: number) => {
    const rows = pages.get(Math.floor(index / kRowsPerAnswer));
    return rows ? { rows, row: index % kRowsPerAnswer } : null;
  };
  return { listed: { total: first.total, find, note: "" }, error, see };
}

function useFileRows(number: number, wanted: Wanted): Rows {
  const [rows, setRows] = useState<AllocationRows | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const asked: RowsWanted = { ...wanted, at: "all", search: "", from: 0 };
    answers
      .peek()!
      .rows(number, asked)
      .then(setRows, (problem) => setError(messageOf(problem)));
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

function matches(rows: AllocationRows, row: number, wanted: Wanted): boolean {
  if (wanted.at !== "all") {
    if (rows.made[row] !== kNone && rows.made[row] > wanted.at) return false;
    if (rows.freed[row] !== kNone && rows.freed[row] <= wanted.at) return false;
  }
  if (!wanted.search) return true;
  const text = wanted.search.toLowerCase();
  return framesOf(stacks.value, rows.stack[row]).some((frame) =>
    frame.join(":").toLowerCase().includes(text),
  );
}

function Row({ place }: { place: Place | null }) {
  if (!place) return <div class="row" role="row" />;
  const { rows, row } = place;
  const id = rows.id[row];
  const made = rows.made[row];
  const freed = rows.freed[row];
  const document = shown.value!;
  const by = coloring.value.ofAllocation(id, rows.stack[row]);
  return (
    <div
      class="row"
      role="row"
      aria-selected={isSelected("allocation", id)}
      data-id={id}
      onClick={() => select("allocation", id)}
    >
      <span class="number">{formatBytes(rows.bytes[row])}</span>
      <span class="number">{made === kNone ? "before" : formatCount(made)}</span>
      <span class="number">{freed === kNone ? "never" : formatCount(freed)}</span>
      <span class="number">{livedText(rows, row)}</span>
      <span>{document.streams[rows.stream[row]] ?? ""}</span>
      <span>{document.pools[rows.pool[row]] ?? ""}</span>
      <span class="frame">
        <i class="swatch" style={{ background: cssColor(by.coloring.of(by.id, theme.value)) }} />
        {stackTitle(stacks.value, rows.stack[row])}
      </span>
    </div>
  );
}

function livedText(rows: AllocationRows, row: number): string {
  if (rows.freed[row] === kNone) return "to the end";
  const us = rows.freed_us[row] - rows.made_us[row];
  if (rows.made[row] === kNone) return "–";
  return us > 0 ? formatDuration(us) : `${formatCount(rows.freed[row] - rows.made[row])} entries`;
}
