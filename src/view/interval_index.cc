// SPDX-License-Identifier: Apache-2.0
//
// Builds the checkpoints, and starts each query at the last checkpoint that is not later than the
// queried moment.
#include "view/interval_index.h"

#include <algorithm>

namespace ashlar::view {
namespace {

constexpr uint32_t kMinStep = 4096;  // minimum number of entries between checkpoints

}  // namespace

IntervalIndex::IntervalIndex(std::vector<EntryInterval> all, uint32_t entry_count)
    : all_(std::move(all)) {
  uint32_t moment = 0;
  checkpoints_.push_back({.moment = kNever, .begin = 0});
  while (moment < entry_count) {
    const std::vector<uint32_t> present = at(moment);
    checkpoints_.back().moment = moment;
    checkpoint_intervals_.insert(checkpoint_intervals_.end(), present.begin(), present.end());
    checkpoints_.push_back({.moment = kNever, .begin = checkpoint_intervals_.size()});
    const uint64_t step = std::max<uint64_t>(kMinStep, present.size());
    if (step >= entry_count - moment) break;
    moment += static_cast<uint32_t>(step);
  }
  checkpoint_intervals_.shrink_to_fit();
}

std::vector<uint32_t> IntervalIndex::at(uint32_t moment) const {
  std::vector<uint32_t> present;
  uint32_t next = 0;
  const auto after =
      std::partition_point(checkpoints_.begin(), checkpoints_.end(),
                           [moment](const Checkpoint& each) { return each.moment <= moment; });
  if (after != checkpoints_.begin()) {
    const auto nearest = std::prev(after);
    for (size_t i = nearest->begin; i < after->begin; ++i) {
      if (all_[checkpoint_intervals_[i]].end > moment) present.push_back(checkpoint_intervals_[i]);
    }
    next = first_after(nearest->moment);
  }
  for (; next < all_.size() && all_[next].begin <= moment; ++next) {
    if (all_[next].end > moment) present.push_back(next);
  }
  return present;
}

uint32_t IntervalIndex::first_after(uint32_t moment) const {
  const auto found =
      std::partition_point(all_.begin(), all_.end(),
                           [moment](const EntryInterval& each) { return each.begin <= moment; });
  return static_cast<uint32_t>(found - all_.begin());
}

}  // namespace ashlar::view
