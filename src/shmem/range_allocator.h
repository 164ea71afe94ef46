// SPDX-License-Identifier: Apache-2.0
//
// Hands out ranges of the symmetric heap. Pure arithmetic on offsets, kept outside of the heap:
// what programs write there by mistake harms nobody's books. The same calls in the same order give
// the same offsets, which is what makes memory symmetric. Not thread safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace ashlar::shmem {

// Free and live ranges tile the heap; no two free ones are neighbours.
class RangeAllocator {
 public:
  // `origin`: where the heap begins, for alignments; its lower bits are the same on all PEs.
  RangeAllocator(size_t capacity_bytes, size_t origin)
      : origin_(origin % kMostAlignment), free_{{0, capacity_bytes}} {}

  // Heaps begin anywhere in a page.
  static constexpr size_t kMostAlignment = 4096;

  // The first place that fits; none: there is no room. REQUIRES: a power of two, at most that.
  std::optional<size_t> allocate(size_t bytes, size_t alignment);
  // How many bytes were asked for at the beginning of a live range; none: none begins there.
  std::optional<size_t> bytes_at(size_t offset) const;
  // Where it is; false: there is no room behind it, and nothing has changed. REQUIRES, here and
  // below: a live range begins there.
  bool resize(size_t offset, size_t bytes);
  void free(size_t offset);

 private:
  struct Live {
    size_t range_bytes = 0;
    size_t asked_bytes = 0;
  };

  // Free, and merged with its neighbours.
  void give_back(size_t offset, size_t bytes);

  const size_t origin_;
  std::map<size_t, size_t> free_;  // by offset: bytes
  std::map<size_t, Live> live_;    // by offset
};

}  // namespace ashlar::shmem
