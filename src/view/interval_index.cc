// SPDX-License-Identifier: Apache-2.0
//
// Builds the checkpoints, and starts each query at the nearest one.
#include "view/interval_index.h"

#include <algorithm>

namespace ashlar::view {
namespace {

constexpr uint32_t kMinStep = 4096;  // entries from one checkpoint to the next

}  // namespace

IntervalIndex::IntervalIndex(std::vector<EntryInterval> all, uint32_t entry_count)
    : all_(std::move(all)) {
  uint32_t moment = 0;
  lists_.push_back({.moment = kNever, .begin = 0});
  while (moment < entry_count) {
    const std::vector<uint32_t> present = at(moment);
    lists_.back().moment = moment;
    listed_.insert(listed_.end(), present.begin(), present.end());
    lists_.push_back({.moment = kNever, .begin = listed_.size()});
    const uint64_t step = std::max<uint64_t>(kMinStep, present.size());
    if (step >= entry_count - moment) break;
    moment += static_cast<uint32_t>(step);
  }
  listed_.shrink_to_fit();
}

std::vector<uint32_t> IntervalIndex::at(uint32_t moment) const {
  std::vector<uint32_t> present;
  uint32_t next = 0;
  const auto after = std::partition_point(
      lists_.begin(), lists_.end(), [moment](const List& list) { return list.moment <= moment; });
  if (after != lists_.begin()) {
    const auto list = std::prev(after);
    for (size_t i = list->begin; i < after->begin; ++i) {
      if (all_[listed_[i]].end > moment) present.push_back(listed_[i]);
    }
    next = first_after(list->moment);
  }
  for (; next < all_.size() && all_[next].begin <= moment; ++next) {
    if (all_[next].end > moment) present.push_back(next);
  }
  return present;
}

uint32_t IntervalIndex::first_after(uint32_t moment) const {
  const auto found =
      std::partition_point(all_.begin(), all_.end(),
                           [moment](const EntryInterval& life) { return life.begin <= moment; });
  return static_cast<uint32_t>(found - all_.begin());
}

}  // namespace ashlar::view
