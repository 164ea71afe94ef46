// SPDX-License-Identifier: Apache-2.0
//
// Models the addresses a CUDA driver assigns to plain allocations. Replays need it: among equal
// free blocks an allocator takes the one with the lowest address, so addresses influence the
// result. Not thread safe.
//
// Measured on an H200 with driver 580 (docs/internals/sim_device.md, tools/driver_addresses.py).
// The driver reserves chunks whose sizes are multiples of 32 MiB. An allocation goes into the
// newest chunk with enough space, into its smallest sufficient hole, and among equal holes into the
// lowest. If no chunk has enough space, the driver reserves a new one at the upper end of the
// highest gap that is at least 32 MiB larger than the chunk. It releases empty chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ashlar::sim {

class DriverAddresses {
 public:
  static constexpr size_t kChunkBytes = size_t{32} << 20;

  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
    size_t bytes() const { return end - begin; }
    bool contains(const Range& other) const { return begin <= other.begin && other.end <= end; }
  };

  // Manages the addresses in [begin, end), rounded inwards to multiples of the chunk size.
  DriverAddresses(uint64_t begin, uint64_t end);

  // Allocates. Returns 0 if there is no space.
  uint64_t allocate(size_t bytes);
  // Frees. Ignores addresses that did not come from here.
  void free(uint64_t at);

  // --- state

  // The address allocate() would return.

  uint64_t next_address(size_t bytes) const;
  std::optional<Range> new_chunk_for(size_t bytes) const;
  std::optional<Range> hole_at(uint64_t at) const;
  std::optional<Range> gap_at(uint64_t at) const;
  bool touches_chunk(const Range& range) const;
  bool touches_gap(const Range& range) const;

  // --- inferred allocations by other code in the process

  // REQUIRES: a hole contains the range.
  void allocate_in_hole(const Range& range);
  // Adds an empty chunk that is never released. It counts as newer than the newest chunk with space
  // for `bytes`, or as the oldest if there is none. REQUIRES: !touches_chunk(range).
  void add_chunk(const Range& range, size_t bytes);
  // REQUIRES: !touches_chunk(range).
  void open_gap(Range range);
  void close_gap(const Range& range);

 private:
  using Age = std::pair<uint64_t, uint64_t>;  // larger is newer

  // Invariant: `holes`, as (bytes, address), and the allocations in `taken_ranges_` tile the chunk.
  struct Chunk {
    size_t bytes = 0;
    Age age{};
    bool stays = false;
    std::set<std::pair<size_t, uint64_t>> holes{};
  };
  using Chunks = std::map<uint64_t, Chunk>;

  Chunk* chunk_with_room(size_t bytes) const;
  void add(const Range& range, Chunk chunk);
  Chunks::const_iterator chunk_at(uint64_t at) const;
  Range free_around(Chunks::const_iterator chunk, const Range& range) const;

  std::map<uint64_t, uint64_t> gaps_;  // begin address to end address; not adjacent
  Chunks chunks_;
  std::map<Age, Chunk*, std::greater<>> with_holes_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, size_t> taken_ranges_;  // address to size
};

}  // namespace ashlar::sim
