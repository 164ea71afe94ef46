// The table of stacks: what each holds at the moment, and at the other one where there is one.
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { cssColor } from "../model/colors.ts";
import { formatBytes, formatChange, formatCount, plural } from "../model/format.ts";
import { framesOf, stackTitle } from "../model/frames.ts";
import { answers, coloring, moment, otherMoment, stacks } from "../session.ts";
import { documentNumber, isSelected, select } from "../state.ts";
import { theme } from "../theme.ts";
import { type Column, TableHead } from "./table.tsx";
import { useAnswer } from "./use_answer.ts";
import { VirtualRows } from "./virtual_rows.tsx";

type Key = "bytes" | "change" | "count" | "mean";
interface Row {
  stack: number;
  bytes: number;
  change: number;
  count: number;
  mean: number;
}

const sort = signal<Key>("bytes");
const order = signal<"up" | "down">("down");

async function rowsAt(number: number, at: number, other: number | null): Promise<Row[]> {
  const ask = answers.peek()!;
  const now = await ask.stackBytes(number, at);
  const rows = new Map<number, Row>();
  now.stack.forEach((stack, i) => {
    const [bytes, count] = [now.bytes[i], now.count[i]];
    rows.set(stack, { stack, bytes, count, change: bytes, mean: bytes / Math.max(1, count) });
  });
  if (other === null) return [...rows.values()];
  const before = await ask.stackBytes(number, other);
  before.stack.forEach((stack, i) => {
    const row = rows.get(stack) ?? { stack, bytes: 0, count: 0, change: 0, mean: 0 };
    rows.set(stack, { ...row, change: row.bytes - before.bytes[i] });
  });
  return [...rows.values()];
}

export function StackTable({ search }: { search: string }) {
  const number = documentNumber.value;
  const at = moment.value;
  const other = otherMoment.value;
  const { value, error } = useAnswer(() => rowsAt(number, at, other), `${number} ${at} ${other}`);
  const found = stacks.value;
  const rows = useMemo(() => {
    const text = search.toLowerCase();
    const has = (row: Row) =>
      text === "" ||
      framesOf(found, row.stack).some((frame) => frame.join(":").toLowerCase().includes(text));
    const sign = order.value === "up" ? 1 : -1;
    const key = sort.value;
    return (value ?? []).filter(has).sort((a, b) => sign * (a[key] - b[key]));
  }, [value, search, sort.value, order.value, found]);
  const columns: Column<Key>[] = [
    { key: "bytes", title: "live bytes", isNumber: true },
    { key: "change", title: other === null ? "" : "since B", isNumber: true },
    { key: "count", title: "allocations", isNumber: true },
    { key: "mean", title: "mean size", isNumber: true },
    { key: null, title: "stack, innermost frame", isNumber: false },
  ];
  const turn = (key: Key) => {
    order.value = key === sort.value && order.value === "down" ? "up" : "down";
    sort.value = key;
  };
  return (
    <div class="table stacks" role="table" data-total={rows.length}>
      <TableHead columns={columns} sort={sort.value} order={order.value} onSort={turn} />
      {error && <p class="empty">{error}</p>}
      <VirtualRows
        count={rows.length}
        resetOn={`${search} ${sort.value} ${order.value}`}
        row={(index) => <StackRow row={rows[index]} isCompared={other !== null} />}
      />
      <p class="status">
        {plural(rows.length, "stack")} with live memory at entry {formatCount(at)}
      </p>
    </div>
  );
}

function StackRow({ row, isCompared }: { row: Row; isCompared: boolean }) {
  return (
    <div
      class="row"
      role="row"
      aria-selected={isSelected("stack", row.stack)}
      data-id={row.stack}
      onClick={() => select("stack", row.stack)}
    >
      <span class="number">{formatBytes(row.bytes)}</span>
      <span class="number">{isCompared ? formatChange(row.change) : ""}</span>
      <span class="number">{formatCount(row.count)}</span>
      <span class="number">{formatBytes(row.mean)}</span>
      <span class="frame">
        <i
          class="swatch"
          style={{ background: cssColor(coloring.value.stack.of(row.stack, theme.value)) }}
        />
        {stackTitle(stacks.value, row.stack)}
      </span>
    </div>
  );
}
