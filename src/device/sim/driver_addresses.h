// SPDX-License-Identifier: Apache-2.0
//
// Where a driver puts plain allocations: among equal free blocks an allocator takes the one with
// the lowest address, so a replay that must guess addresses needs the driver's own rule. Not thread
// safe.
//
// Measured on an H200 under driver 580 (docs/design/sim_device.md, tools/driver_addresses.py):
// addresses come in chunks, multiples of 32 MiB. An allocation goes into the chunk that was made
// last among those with room, there into the smallest hole that is large enough, and of equal ones
// into the lowest. If none has room, a new chunk is made at the upper end of the highest gap that
// is 32 MiB wider than the chunk. A chunk with nothing in it goes back.
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

  // Addresses below `end`, and never below `begin`; both are rounded to whole chunks.
  DriverAddresses(uint64_t begin, uint64_t end);

  // 0: there is no room.
  uint64_t take(size_t bytes);
  // What did not come from here is left alone.
  void give_back(uint64_t at);

  // --- what take() would do, and what there is

  uint64_t where(size_t bytes) const;
  std::optional<Range> new_chunk_for(size_t bytes) const;
  std::optional<Range> hole_at(uint64_t at) const;
  std::optional<Range> gap_at(uint64_t at) const;
  bool touches_chunk(const Range& range) const;
  bool touches_gap(const Range& range) const;

  // --- what others in the process take and give back, as far as it was found out

  // REQUIRES: a hole contains it.
  void take_from_hole(const Range& range);
  // An empty chunk that never goes back. It is newer than those with room for `bytes`, and older
  // than all if there are none. REQUIRES: it touches no chunk.
  void add_chunk(const Range& range, size_t bytes);
  // REQUIRES: it touches no chunk.
  void open_gap(Range range);
  void close_gap(const Range& range);

 private:
  using Age = std::pair<uint64_t, uint64_t>;  // larger is newer

  // holes == what is left of it between the places taken; each (bytes, address).
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

  std::map<uint64_t, uint64_t> gaps_;  // ends, by beginning; no two touch
  Chunks chunks_;
  std::map<Age, Chunk*, std::greater<>> with_holes_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, size_t> taken_;  // bytes, by address
};

}  // namespace ashlar::sim
