// SPDX-License-Identifier: Apache-2.0
//
// Allocates ranges of the symmetric heap. Works on offsets and keeps its metadata outside the heap,
// where a program's stray writes cannot damage it. Deterministic: the same calls in the same order
// return the same offsets on every PE. Not thread safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace ashlar::shmem {

// Invariants: free and live ranges tile the heap, and no two free ranges are adjacent.
class RangeAllocator {
 public:
  explicit RangeAllocator(size_t capacity_bytes) : free_{{0, capacity_bytes}} {}

  // Allocates by first fit and returns the offset, a multiple of `alignment`, or nothing if no free
  // range is large enough. REQUIRES: `alignment` is a power of two.
  std::optional<size_t> allocate(size_t bytes, size_t alignment);
  // Returns the size requested for the live range at `offset`, or nothing if no live range begins
  // at `offset`.
  std::optional<size_t> requested_bytes(size_t offset) const;
  // Resizes a live range in place. Returns false, changing nothing, if the free range that follows
  // is too small. REQUIRES: a live range begins at `offset`.
  bool resize(size_t offset, size_t bytes);
  // REQUIRES: a live range begins at `offset`.
  void free(size_t offset);

 private:
  struct LiveRange {
    size_t range_bytes = 0;
    size_t requested_bytes = 0;
  };

  // Adds a free range and merges it with its neighbours.
  void insert_free(size_t offset, size_t bytes);

  std::map<size_t, size_t> free_;     // size, keyed by offset
  std::map<size_t, LiveRange> live_;  // keyed by offset
};

}  // namespace ashlar::shmem
