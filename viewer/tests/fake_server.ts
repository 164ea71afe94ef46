// SPDX-License-Identifier: Apache-2.0
//
// A small random run, and the responses of `ashlar view` for it, computed in the simplest way. Unit
// tests compare the page's results with these responses.
import { kNone, type StackBytes } from "../src/api/scene.ts";

export type Values = number[] | bigint[];
type TypeName = "u8" | "u16" | "u32" | "u64" | "f32" | "f64";
const kTypeNumbers: Record<TypeName, number> = { u8: 1, u16: 2, u32: 3, u64: 4, f32: 5, f64: 6 };
const kSizes: Record<TypeName, number> = { u8: 1, u16: 2, u32: 4, u64: 8, f32: 4, f64: 8 };

// Encodes columns according to docs/reference/formats/view.md.
export function encodeColumns(columns: Record<string, [TypeName, Values]>): ArrayBuffer {
  const names = Object.keys(columns);
  let end = 8 + 32 * names.length;
  const begins = names.map((name) => {
    const begin = end;
    end += Math.ceil((columns[name][1].length * kSizes[columns[name][0]]) / 8) * 8;
    return begin;
  });
  const bytes = new ArrayBuffer(end);
  const view = new DataView(bytes);
  new Uint8Array(bytes).set(new TextEncoder().encode("ASHV"));
  view.setUint32(4, names.length, true);
  names.forEach((name, i) => {
    const [type, values] = columns[name];
    new Uint8Array(bytes).set(new TextEncoder().encode(name), 8 + 32 * i);
    view.setUint32(8 + 32 * i + 16, kTypeNumbers[type], true);
    view.setUint32(8 + 32 * i + 20, values.length, true);
    view.setBigUint64(8 + 32 * i + 24, BigInt(begins[i]), true);
    values.forEach((value, at) => write(view, type, begins[i] + at * kSizes[type], value));
  });
  return bytes;
}

function write(view: DataView, type: TypeName, at: number, value: number | bigint): void {
  if (type === "u64") view.setBigUint64(at, BigInt(value), true);
  else if (type === "u8") view.setUint8(at, Number(value));
  else if (type === "u16") view.setUint16(at, Number(value), true);
  else if (type === "u32") view.setUint32(at, Number(value), true);
  else if (type === "f32") view.setFloat32(at, Number(value), true);
  else view.setFloat64(at, Number(value), true);
}

export interface FakeAllocation {
  bytes: number;
  made: number;
  freed: number;
  stack: number;
}

const kStackCount = 9;
const kCategoryCount = 3;

export function categoryOf(one: FakeAllocation): number {
  return one.stack % kCategoryCount;
}

// Returns random allocations and frees, which the seed determines.
export function makeRun(seed: number, entries: number): FakeAllocation[] {
  let state = seed >>> 0;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const all: FakeAllocation[] = [];
  const live: FakeAllocation[] = [];
  for (let entry = 0; entry < entries; ++entry) {
    if (live.length > 0 && random() < 0.48) {
      const [victim] = live.splice(Math.floor(random() * live.length), 1);
      victim.freed = entry;
      continue;
    }
    const bytes = 512 * Math.ceil(1 + random() ** 6 * 40_000);
    const made = { bytes, made: entry, freed: kNone, stack: Math.floor(random() * kStackCount) };
    all.push(made);
    live.push(made);
  }
  return all;
}

export function isLiveAt(one: FakeAllocation, entry: number): boolean {
  return one.made <= entry && entry < one.freed;
}

// Returns the response for a tile by allocation at the deepest level, where a column is one entry.
export function tileResponse(
  run: FakeAllocation[],
  from: number,
  columns: number,
  smallest: number,
): ArrayBuffer {
  const entries = Array.from({ length: columns }, (_, i) => from + i);
  const rows = run.filter(
    (one) => one.bytes >= smallest && entries.some((entry) => isLiveAt(one, entry)),
  );
  const changes: [column: number, row: number, isAdded: number][] = [];
  for (let column = 1; column < columns; ++column) {
    const [before, now] = [from + column - 1, from + column];
    rows.forEach((one, row) => {
      if (isLiveAt(one, before) && !isLiveAt(one, now)) changes.push([column, row, 0]);
    });
    rows.forEach((one, row) => {
      if (!isLiveAt(one, before) && isLiveAt(one, now)) changes.push([column, row, 1]);
    });
  }
  const sum = (entry: number, keep: (one: FakeAllocation) => boolean) =>
    run.filter((one) => isLiveAt(one, entry) && keep(one)).reduce((all, one) => all + one.bytes, 0);
  const requested = entries.map((entry) => sum(entry, () => true));
  const smallGroups = (
    name: string,
    count: number,
    groupOf: (one: FakeAllocation) => number,
  ): Record<string, [TypeName, number[]]> => {
    const groups = Array.from({ length: count }, (_, i) => i);
    const bytes = groups.flatMap((group) =>
      entries.map((entry) => sum(entry, (one) => one.bytes < smallest && groupOf(one) === group)),
    );
    return {
      [`small_${name}`]: [name === "stack" ? "u32" : "u8", groups],
      [`${name}_bytes`]: ["f64", bytes],
    };
  };
  const first = [...rows.keys()].filter((row) => isLiveAt(rows[row], from));
  return encodeColumns({
    entry: ["u32", entries],
    time_us: ["f64", entries.map((entry) => 10 * entry)],
    requested: ["f64", requested],
    allocated: ["f64", requested],
    reserved: ["f64", requested.map((bytes) => 2 * bytes)],
    reserved_high: ["f64", requested.map((bytes) => 2 * bytes)],
    requested_low: ["f64", requested],
    small: ["f64", entries.map((entry) => sum(entry, (one) => one.bytes < smallest))],
    ...smallGroups("stack", kStackCount, (one) => one.stack),
    ...smallGroups("category", kCategoryCount, categoryOf),
    first: ["u32", first],
    change_column: ["u16", changes.map((change) => change[0])],
    change_row: ["u32", changes.map((change) => change[1])],
    change_is_added: ["u8", changes.map((change) => change[2])],
    id: ["u32", rows.map((one) => run.indexOf(one))],
    bytes: ["f64", rows.map((one) => one.bytes)],
    made: ["u32", rows.map((one) => one.made)],
    freed: ["u32", rows.map((one) => one.freed)],
    stack: ["u32", rows.map((one) => one.stack)],
    stream: ["u32", rows.map(() => 0)],
    pool: ["u32", rows.map(() => 0)],
    category: ["u8", rows.map(categoryOf)],
  });
}

// Returns live bytes by stack, all of one category unless categories are given.
export function heldBytes(stack: number[], bytes: number[], category?: number[]): StackBytes {
  const columns = {
    stack: Uint32Array.from(stack),
    bytes: Float64Array.from(bytes),
    count: Uint32Array.from(stack, () => 1),
  };
  const categories = Uint8Array.from(category ?? stack.map(() => 0));
  return { at: 0, ...columns, split: { ...columns, category: categories } };
}
