// SPDX-License-Identifier: Apache-2.0
//
// Types of the responses; docs/reference/formats/view.md describes them.

// Means "never" in `freed`, "before the trace" in `made`, and "none" or "others" in ids.
export const kNone = 0xffffffff;
export const kNoCategory = 0xff;

export const kGroupings = ["allocation", "stack", "category", "stream", "pool"] as const;
export type Grouping = (typeof kGroupings)[number];

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
  categories: string[]; // names, by category number
  phases: boolean; // whether the training data has phases
  annotations: { entry: number; text: string }[]; // possibly truncated, like `ooms`
  annotation_count: number; // number of annotations before truncation
  ooms: { entry: number; requested: number; free: number }[];
  oom_count: number; // number of failures before truncation
  allocations: number;
  moments: number[] | null; // those for which a self-contained file has data; null: all
}

export interface Scene {
  version: number;
  program: string;
  live: string | null; // the monitored process
  default_document: number;
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
  peak_entry: number | null; // null: before the first entry
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
  results: Trial[]; // the settings that can be compared, including the recorded one
  note: string; // why settings are not compared, or what is not known
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
  // The small allocations by stack and by category; kNone: other stacks.
  small_stack: Uint32Array;
  stack_bytes: Float64Array; // row-major, one value per column of the tile
  small_category: Uint8Array;
  category_bytes: Float64Array; // row-major, one value per column of the tile
  first: Uint32Array;
  change_column: Uint16Array;
  change_row: Uint32Array;
  change_is_added: Uint8Array;
  rows: Allocations;
}

export interface GroupTile extends TileColumns {
  by: Exclude<Grouping, "allocation">;
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
  category: Uint8Array;
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
  block_category: Uint8Array; // kNoCategory: none, or several
  // The physical memory behind views; empty for engines without extents. The home of an extent is
  // the address at which the extent is in use.
  extent_id: BigUint64Array;
  extent_bytes: Float64Array;
  extent_stream: Uint32Array;
  extent_pool: Uint32Array;
  extent_is_large: Uint8Array;
  extent_has_home: Uint8Array; // 0: idle, or the home is unknown
  extent_home: BigUint64Array;
  mapping_first: Uint32Array; // first mapping of each extent, then the number of all mappings
  mapping_address: BigUint64Array; // addresses of all mappings, grouped by extent
  range_first: Uint32Array; // first mapped range of each segment, then the number of all ranges
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
  split: StackSplit;
}

// The bytes of StackBytes by stack and category.
export interface StackSplit {
  stack: Uint32Array;
  category: Uint8Array;
  bytes: Float64Array;
  count: Uint32Array;
}

// Points of a piecewise linear function from entries to times; empty without times.
export interface Clock {
  entry: Uint32Array;
  time_us: Float64Array;
}

export const kSortKeys = ["bytes", "made", "freed", "age"] as const;
export type SortKey = (typeof kSortKeys)[number];

export interface RowsQuery {
  sort: SortKey;
  order: "up" | "down";
  from: number;
  at: number | "all";
  search: string;
  category: number | null; // null: all
}

// The results of the analyses: parts of the --json output of the commands.

export interface StackFrame {
  name: string;
  filename: string;
  line: number;
}

export type PhaseName = "forward" | "backward" | "optimizer" | "evaluation" | "other";

export interface Training {
  categories: CategoryUse[];
  iterations: {
    found_from: string;
    problem: string | null;
    complete: number;
    highest: { index: number; phase: PhaseName } | null;
    all: IterationSpan[];
  };
  phases: { first_entry: number; end_entry: number; phase: PhaseName }[];
}

export interface CategoryUse {
  name: string;
  bytes_at_peak: number;
  max_bytes: number;
  rules: { rule: string; bytes_at_peak: number; count: number }[];
}

export interface IterationSpan {
  first_entry: number;
  end_entry: number;
  complete: boolean;
  peak_requested_bytes: number;
}

// The result of an analysis. If the file does not permit the analysis, for example because it has
// no history, the result only says why.
export interface AnalysisResult {
  cannot_tell?: string;
}

export interface Oom extends AnalysisResult {
  out_of_memory: boolean;
  verdict?: { text: string; remedies: string[] };
  entry: number | null;
  was_recorded: boolean;
  requested_bytes: number | null;
  rounded_bytes: number;
  segment_bytes: number;
  frames: StackFrame[]; // innermost frame first
  device_free_bytes: number;
  limit: {
    is_inferred: boolean;
    at_least_bytes: number;
    below_bytes: number;
    replayed_bytes: number;
    is_of_device: boolean;
  };
  is_reproduced: boolean; // false: a replay does not fail here, so settings cannot be compared
  state: OomState | null;
  live_requested_bytes: number;
  holders?: { bytes: number; count: number; category: string; stack: StackFrame[] }[];
  categories: { name: string; bytes: number }[];
  settings_tried: number;
  fitting: Trial[]; // settings under which the run completes
}

export interface OomState {
  reserved_bytes: number;
  allocated_bytes: number;
  free_bytes: number;
  usable_free_bytes: number;
  largest_hole_bytes: number;
  largest_usable_hole_bytes: number;
  pinned_segments: PinnedSegment[];
}

export interface PinnedSegment {
  address: number;
  total_bytes: number;
  free_bytes: number;
  largest_hole_bytes: number;
  live_blocks: number;
  largest_blocks: {
    bytes: number;
    made_at_entry: number | null;
    age_us: number | null;
    frames: StackFrame[];
  }[];
}

export interface Leaks extends AnalysisResult {
  iterations: number;
  iterations_from: string;
  can_tell: boolean;
  problem: string | null;
  grouped_by: "stack" | "size_class_and_stream";
  groups: number;
  leaks: Leak[];
}

export interface Leak {
  bytes_per_iteration: number;
  growth_bytes: number;
  live_bytes: number;
  live_count: number;
  live_bytes_after_iterations: number[];
  stack?: StackFrame[]; // innermost frame first
  size_class_bytes?: number;
  stream?: number;
}

export interface SourceFiles extends AnalysisResult {
  peak_entry: number | null;
  bytes_at_peak: number;
  allocated_bytes: number;
  files: SourceFile[];
  elsewhere: { name: string; bytes_at_peak: number; allocated_bytes: number }[];
}

export interface SourceFile {
  path: string;
  source: string | null; // where the text was found
  source_problem: string | null;
  bytes_at_peak: number;
  allocated_bytes: number;
  lines: SourceLine[];
}

export interface SourceLine {
  line: number;
  function: string;
  bytes_at_peak: number;
  count_at_peak: number;
  bytes_at_peak_with_calls: number;
  allocated_bytes: number;
  allocation_count: number;
  text: string | null;
}
