// SPDX-License-Identifier: Apache-2.0
//
// Models the addresses that a CUDA driver assigns to plain allocations. Replays need the model:
// among free blocks of equal size, an allocator takes the block with the lowest address, so
// addresses influence the result. Not thread safe.
//
// Measured on an H200 with driver 580 (docs/internals/sim_device.md, tools/driver_addresses.py).
// The driver reserves chunks whose sizes are multiples of 32 MiB. An allocation goes into the
// newest chunk that has a sufficient hole (free range): into the smallest such hole, or the lowest
// of equally small holes. If there is no such hole, the driver reserves a new chunk at the upper
// end of the highest gap between chunks that is at least 32 MiB larger than the new chunk. The
// driver releases empty chunks.
//
// A function that throws std::bad_alloc has changed nothing, except that allocate may leave an
// empty chunk.
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

  // Allocates a range and returns its address, or 0 if there is no space.
  uint64_t allocate(size_t bytes);
  // Frees the allocation at `at`. Does nothing if there is no allocation at this address.
  void free(uint64_t at);

  // --- queries; a hole is a free range in a chunk, a gap is a range where chunks can be reserved

  // Returns the address that allocate() would return.
  uint64_t next_address(size_t bytes) const;
  // Returns the chunk that the driver would reserve for `bytes` if no chunk had enough space;
  // nullopt if no gap is large enough.
  std::optional<Range> new_chunk_for(size_t bytes) const;
  // These functions return the hole or the gap that contains the address.
  std::optional<Range> hole_at(uint64_t at) const;
  std::optional<Range> gap_at(uint64_t at) const;
  bool overlaps_chunk(const Range& range) const;
  bool overlaps_gap(const Range& range) const;

  // --- inferred allocations by other code in the process

  // Marks the range as allocated. REQUIRES: a hole contains the range.
  void allocate_in_hole(const Range& range);
  // Adds an empty chunk that is never released. The new chunk counts as newer than the newest chunk
  // with space for `bytes`. If no chunk has that space, the new chunk counts as older than every
  // chunk from allocate(). REQUIRES: !overlaps_chunk(range).
  void add_chunk(const Range& range, size_t bytes);
  // open_gap adds the range to the gaps; close_gap removes the range from the gaps. REQUIRES:
  // !overlaps_chunk(range).
  void open_gap(Range range);
  void close_gap(const Range& range);

 private:
  // A larger value means a newer chunk. The age is {n, 0} for the chunk with number n, and {n, m}
  // for chunk m from add_chunk, which counts as newer than chunk n.
  using Age = std::pair<uint64_t, uint64_t>;

  // A chunk. Its holes, stored as (bytes, address), and its allocations cover it without gaps or
  // overlaps.
  struct Chunk {
    size_t bytes = 0;
    Age age{};
    bool is_permanent = false;  // the chunk is from add_chunk and is not released when empty
    std::set<std::pair<size_t, uint64_t>> holes{};
  };
  using Chunks = std::map<uint64_t, Chunk>;

  Chunk* chunk_with_room(size_t bytes) const;
  void add(const Range& range, Chunk chunk);
  Chunks::const_iterator chunk_at(uint64_t at) const;
  Range free_around(Chunks::const_iterator chunk, const Range& range) const;

  std::map<uint64_t, uint64_t> gaps_;  // end addresses by begin address; gaps are never adjacent
  Chunks chunks_;
  std::map<Age, Chunk*, std::greater<>> chunks_with_holes_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, size_t> allocations_;  // sizes, keyed by address
};

}  // namespace ashlar::sim
