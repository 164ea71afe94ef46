// SPDX-License-Identifier: Apache-2.0
//
// Things that come with an entry and go with another, such as allocations and segments: which of
// them are there at a moment? Answered by lists made now and then, so that the time for an answer
// grows with what is there, not with the trace. All lists together are no longer than the trace.
// Constant once built, and so thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar::view {

inline constexpr uint32_t kNever = UINT32_MAX;  // also: none

// It is there at the moments E with begin <= E < end.
struct Life {
  uint32_t begin = 0;
  uint32_t end = kNever;

  bool is_at(uint32_t moment) const { return begin <= moment && moment < end; }
};

class Lives {
 public:
  Lives() = default;
  // REQUIRES: in the order of their beginnings.
  Lives(std::vector<Life> all, uint32_t entry_count);

  const std::vector<Life>& all() const { return all_; }
  // Their positions in all(), ascending.
  std::vector<uint32_t> at(uint32_t moment) const;
  // The first position of those that begin after the moment.
  uint32_t first_after(uint32_t moment) const;

 private:
  struct List {
    uint32_t moment = 0;
    size_t begin = 0;  // in listed_; it ends where the next one begins
  };

  std::vector<Life> all_{};
  std::vector<List> lists_{};  // the last one is empty, and of no moment
  std::vector<uint32_t> listed_{};
};

}  // namespace ashlar::view
