// SPDX-License-Identifier: Apache-2.0
//
// Allocations by who made them: by stack, by stream, or by pool. A page can show some groups apart;
// which those are is the same for the whole document. Constant once built, and so thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "view/lives.h"

namespace ashlar::view {

inline constexpr size_t kMostGroups = 48;

class Groups {
 public:
  Groups() = default;
  // `group_of`: by allocation, as `lives` has them; `bytes` likewise. The greatest groups are those
  // with the most bytes at the moment `peak`, then over the whole run.
  struct Members {
    const Lives& lives;
    const std::vector<uint64_t>& bytes;
    uint32_t entry_count = 0;
    uint32_t peak = 0;
  };
  Groups(const Members& members, const std::vector<uint32_t>& group_of);

  // The groups to be shown, the greatest first.
  const std::vector<uint32_t>& shown() const { return shown_; }
  // All others are shown as one, behind them.
  bool has_others() const { return has_others_; }
  // By allocation: the position of its group in shown(), or one more.
  const std::vector<uint8_t>& place_of() const { return place_of_; }

 private:
  std::vector<uint32_t> shown_{};
  std::vector<uint8_t> place_of_{};
  bool has_others_ = false;
};

}  // namespace ashlar::view
