// SPDX-License-Identifier: Apache-2.0
//
// Types of the responses; docs/reference/formats/view.md describes them.

// The value that means "never" in `freed`, and "none" or "others" in ids.
export const kNone = 0xffffffff;

export type Grouping = "allocation" | "stack" | "stream" | "pool";
export const kGroupings: readonly Grouping[] = ["allocation", "stack", "stream", "pool"];

export interface DocumentScene {
  name: string;
  device: number;
  entries: number;
  has_history: boolean; // false: the document has only the final state, as one entry
  columns: number; // number of columns per tile
  levels: number;
  first_us: number | null;
  last_us: number | null;
  peak: { entry: number; requested: number; allocated: number; reserved: number };
  reserved_peak: { entry: number; reserved: number; requested: number };
  lower_bound: number;
  streams: string[];
  pools: string[];
  annotations: { entry: number; text: string }[]; // possibly truncated, like `ooms`
  annotation_count: number; // number of annotations before truncation
  ooms: { entry: number; requested: number; free: number }[];
  oom_count: number; // number of failures before truncation
  allocations: number;
  moments: number[] | null;
}

export interface Scene {
  version: number;
  program: string;
  live: string | null; // the monitored process
  documents: DocumentScene[];
}

// Statistics of the monitored process.
export interface LiveStats {
  pid: number;
  program: string;
  ashlar: string;
  monitored_seconds: number;
  setup_error: string;
  allocators: LiveAllocator[];
  host_allocators: LiveHostAllocator[];
}

export interface LiveMemory {
  number: number;
  backend: string;
  device: number;
  device_name: string;
  reserved_bytes: number;
  reserved_peak_bytes: number;
  active_bytes: number;
  allocated_bytes: number;
  requested_bytes: number;
  blocks: number;
  allocations: number; // counted, like the two fields below, since the last reset
  retries: number;
  ooms: number;
}

export interface LiveAllocator extends LiveMemory {
  engine: string;
  capacity_bytes: number;
  is_history_on: boolean;
  device_calls: number;
}

// An allocator of pinned host memory.
export interface LiveHostAllocator extends LiveMemory {
  host_calls: number;
}

export type Frame = [functionName: string, file: string, line: number];

export interface Stacks {
  frames: Frame[];
  stacks: number[][]; // outermost frame first
}

export interface Causes {
  peak_entry: number;
  peak_reserved_bytes: number;
  peak_requested_bytes: number;
  lower_bound_bytes: number;
  at_peak: {
    reserved_bytes: number;
    requested_bytes: number;
    gap_bytes: number;
    causes: Record<string, number>;
    explanations: Record<string, string>; // description of each cause
  };
  results: Trial[]; // every replayed setting, including the recorded one
  advice: string[];
}

export interface Trial {
  engine: string;
  conf: string;
  is_recorded: boolean;
  peak_reserved_bytes: number;
  driver_us: number; // modelled cost of the setting's driver calls
  ooms: number;
}

// Values per column of a tile.
export interface TileColumns {
  entry: Uint32Array;
  time_us: Float64Array;
  requested: Float64Array;
  allocated: Float64Array;
  reserved: Float64Array;
  reserved_high: Float64Array; // maximum within the column
  requested_low: Float64Array;
}

export interface AllocationTile extends TileColumns {
  by: "allocation";
  small: Float64Array;
  first: Uint32Array;
  change_column: Uint16Array;
  change_row: Uint32Array;
  change_is_added: Uint8Array;
  rows: Allocations;
}

export interface GroupTile extends TileColumns {
  by: "stack" | "stream" | "pool";
  group: Uint32Array;
  bytes: Float64Array; // row-major, one value per column of the tile
}

export type Tile = AllocationTile | GroupTile;

// A list of allocations, column by column.
export interface Allocations {
  id: Uint32Array;
  bytes: Float64Array;
  made: Uint32Array;
  freed: Uint32Array;
  stack: Uint32Array;
  stream: Uint32Array;
  pool: Uint32Array;
}

export interface AllocationRows extends Allocations {
  total: number;
  made_us: Float64Array;
  freed_us: Float64Array;
  address: BigUint64Array;
}

export interface AddressMap {
  at: number; // the moment of the response
  segment_address: BigUint64Array;
  segment_bytes: Float64Array;
  segment_stream: Uint32Array;
  segment_pool: Uint32Array;
  segment_kind: Uint8Array;
  segment_first: Uint32Array;
  block_offset: Float64Array;
  block_bytes: Float64Array;
  block_state: Uint8Array;
  block_requested: Float64Array;
  block_allocation: Uint32Array;
  block_stack: Uint32Array;
  block_made: Uint32Array;
  // The physical memory behind views; empty for engines without extents.
  extent_id: BigUint64Array;
  extent_bytes: Float64Array;
  extent_stream: Uint32Array;
  extent_pool: Uint32Array;
  extent_is_large: Uint8Array;
  extent_has_home: Uint8Array; // 0: idle, or the home is unknown
  extent_home: BigUint64Array;
  mapping_first: Uint32Array; // first mapping of each extent, then the total number
  mapping_address: BigUint64Array; // addresses of all mappings, grouped by extent
  range_first: Uint32Array; // first mapped range of each segment, then the total number
  range_offset: Float64Array;
  range_bytes: Float64Array;
  range_extent: Uint32Array; // kNone: several, merged
  range_is_home: Uint8Array; // 0: the extent is idle, or in use at another mapping
}

// The kinds of segments. `view` is a view of the paged engine.
export const SegmentKind = { plain: 0, expandable: 1, view: 2 } as const;
export const BlockState = { free: 0, live: 1, pending: 2, unmapped: 3, merged: 4 } as const;

export interface StackBytes {
  at: number; // the moment of the response
  stack: Uint32Array;
  bytes: Float64Array;
  count: Uint32Array;
}

export type SortKey = "bytes" | "made" | "freed" | "age";

export interface RowsQuery {
  sort: SortKey;
  order: "up" | "down";
  from: number;
  at: number | "all";
  search: string;
}
