// SPDX-License-Identifier: Apache-2.0
//
// Client of the protocol in docs/reference/formats/view.md: sends requests to a source and decodes
// the responses. Caches small responses; tiles are cached by TileStore.
import { Columns } from "./columns.ts";
import * as scene from "./scene.ts";
import { getWithRetry, parseJson, type RetryOptions, type Source } from "./source.ts";

export const kRowsPerRequest = 2000;
const kMaxCached = 64; // maximum number of responses, each typically below a megabyte

export interface TileKey {
  document: number;
  by: scene.Grouping;
  level: number;
  index: number;
  detail: number;
}

export interface Analyses {
  causes: scene.Causes;
  oom: scene.Oom;
  leaks: scene.Leaks;
  training: scene.Training;
  annotate: scene.SourceFiles;
}

export class ViewClient {
  private readonly cache = new Map<string, Promise<unknown>>();

  constructor(readonly source: Source) {}

  async scene(progress: RetryOptions["progress"]): Promise<scene.Scene> {
    return parseJson(await getWithRetry(this.source, "scene.json", { progress }));
  }

  // Returns the statistics of the monitored process, which are not cached, because they change.
  async live(): Promise<scene.LiveStats> {
    return parseJson(await this.source.get("live.json"));
  }

  stacks(document: number): Promise<scene.Stacks> {
    return this.once(`d/${document}/stacks.json`, (bytes) => parseJson<scene.Stacks>(bytes));
  }

  // Returns the result of an analysis, which the server may compute in the background.
  async analysis<Name extends keyof Analyses>(
    document: number,
    name: Name,
    retry: RetryOptions,
  ): Promise<Analyses[Name]> {
    return parseJson(await getWithRetry(this.source, `d/${document}/${name}.json`, retry));
  }

  sourceText(document: number, file: number): Promise<string[]> {
    return this.once(
      `d/${document}/source.json?file=${file}`,
      (bytes) => parseJson<{ lines: string[] }>(bytes).lines,
    );
  }

  clock(document: number): Promise<scene.Clock> {
    return this.once(`d/${document}/times`, (bytes) => {
      const columns = new Columns(bytes);
      return { entry: columns.u32("entry"), time_us: columns.f64("time_us") };
    });
  }

  async tile(key: TileKey): Promise<scene.Tile> {
    const path =
      `d/${key.document}/tile?by=${key.by}&level=${key.level}` +
      `&index=${key.index}&detail=${key.detail}`;
    return readTile(key.by, new Columns(await this.source.get(path)));
  }

  map(document: number, at: number): Promise<scene.AddressMap> {
    return this.once(`d/${document}/map?at=${at}`, (bytes) => readMap(at, new Columns(bytes)));
  }

  stackBytes(document: number, at: number): Promise<scene.StackBytes> {
    return this.once(`d/${document}/stacks?at=${at}`, (bytes) => {
      const columns = new Columns(bytes);
      return {
        at,
        stack: columns.u32("stack"),
        bytes: columns.f64("bytes"),
        count: columns.u32("count"),
        split: {
          stack: columns.u32("split_stack"),
          category: columns.u8("split_category"),
          bytes: columns.f64("split_bytes"),
          count: columns.u32("split_count"),
        },
      };
    });
  }

  rows(document: number, wanted: scene.RowsQuery): Promise<scene.AllocationRows> {
    return this.once(
      `d/${document}/allocations?sort=${wanted.sort}&order=${wanted.order}&from=${wanted.from}` +
        `&count=${kRowsPerRequest}&at=${wanted.at}&search=${encodeURIComponent(wanted.search)}` +
        (wanted.category === null ? "" : `&category=${wanted.category}`),
      (bytes) => readRows(new Columns(bytes)),
    );
  }

  allocation(document: number, id: number): Promise<scene.AllocationRows> {
    return this.once(`d/${document}/allocation?id=${id}`, (bytes) => readRows(new Columns(bytes)));
  }

  // Returns the cached response of a path, or requests it. Evicts the least recently used response
  // if the cache is full, and drops failed responses.
  private once<T>(path: string, read: (bytes: ArrayBuffer) => T): Promise<T> {
    const cached = this.cache.get(path);
    this.cache.delete(path); // re-inserted below as the most recently used
    const response = (cached as Promise<T> | undefined) ?? this.source.get(path).then(read);
    this.cache.set(path, response);
    response.catch(() => this.cache.delete(path));
    for (const oldest of this.cache.keys()) {
      if (this.cache.size <= kMaxCached) break;
      this.cache.delete(oldest);
    }
    return response;
  }
}

function readTile(by: scene.Grouping, columns: Columns): scene.Tile {
  const shared: scene.TileColumns = {
    entry: columns.u32("entry"),
    time_us: columns.f64("time_us"),
    requested: columns.f64("requested"),
    allocated: columns.f64("allocated"),
    reserved: columns.f64("reserved"),
    reserved_high: columns.f64("reserved_high"),
    requested_low: columns.f64("requested_low"),
  };
  if (by !== "allocation") {
    return { ...shared, by, group: columns.u32("group"), bytes: columns.f64("bytes") };
  }
  return {
    ...shared,
    by,
    small: columns.f64("small"),
    small_stack: columns.u32("small_stack"),
    stack_bytes: columns.f64("stack_bytes"),
    small_category: columns.u8("small_category"),
    category_bytes: columns.f64("category_bytes"),
    first: columns.u32("first"),
    change_column: columns.u16("change_column"),
    change_row: columns.u32("change_row"),
    change_is_added: columns.u8("change_is_added"),
    rows: readAllocations(columns),
  };
}

function readAllocations(columns: Columns): scene.Allocations {
  return {
    id: columns.u32("id"),
    bytes: columns.f64("bytes"),
    made: columns.u32("made"),
    freed: columns.u32("freed"),
    stack: columns.u32("stack"),
    stream: columns.u32("stream"),
    pool: columns.u32("pool"),
    category: columns.u8("category"),
  };
}

function readRows(columns: Columns): scene.AllocationRows {
  return {
    ...readAllocations(columns),
    total: columns.f64("total")[0] ?? columns.u32("id").length,
    made_us: columns.f64("made_us"),
    freed_us: columns.f64("freed_us"),
    address: columns.u64("address"),
  };
}

function readMap(at: number, columns: Columns): scene.AddressMap {
  return {
    at,
    segment_address: columns.u64("segment_address"),
    segment_bytes: columns.f64("segment_bytes"),
    segment_stream: columns.u32("segment_stream"),
    segment_pool: columns.u32("segment_pool"),
    segment_kind: columns.u8("segment_kind"),
    segment_first: columns.u32("segment_first"),
    block_offset: columns.f64("block_offset"),
    block_bytes: columns.f64("block_bytes"),
    block_state: columns.u8("block_state"),
    block_requested: columns.f64("block_requested"),
    block_allocation: columns.u32("block_allocation"),
    block_stack: columns.u32("block_stack"),
    block_made: columns.u32("block_made"),
    block_category: columns.u8("block_category"),
    extent_id: columns.u64("extent_id"),
    extent_bytes: columns.f64("extent_bytes"),
    extent_stream: columns.u32("extent_stream"),
    extent_pool: columns.u32("extent_pool"),
    extent_is_large: columns.u8("extent_is_large"),
    extent_has_home: columns.u8("extent_has_home"),
    extent_home: columns.u64("extent_home"),
    mapping_first: columns.u32("mapping_first"),
    mapping_address: columns.u64("mapping_address"),
    range_first: columns.u32("range_first"),
    range_offset: columns.f64("range_offset"),
    range_bytes: columns.f64("range_bytes"),
    range_extent: columns.u32("range_extent"),
    range_is_home: columns.u8("range_is_home"),
  };
}
