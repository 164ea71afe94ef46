// SPDX-License-Identifier: Apache-2.0
//
// Sums the bytes of each group at the peak and over the trace, and ranks the groups by both sums.
#include "view/group_ranking.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ashlar::view {
namespace {

struct Weight {
  uint64_t at_peak = 0;
  double over_all = 0;  // sum of the bytes of each allocation times its lifetime in entries
};

}  // namespace

GroupRanking::GroupRanking(const Members& members, const std::vector<uint32_t>& group_of) {
  const std::vector<EntryInterval>& intervals = members.intervals.all();
  uint32_t group_count = 0;
  for (const uint32_t group : group_of) group_count = std::max(group_count, group + 1);
  std::vector<Weight> weights(group_count);
  for (size_t i = 0; i < intervals.size(); ++i) {
    Weight& weight = weights[group_of[i]];
    if (intervals[i].contains(members.peak)) weight.at_peak += members.bytes[i];
    const uint32_t end = std::min(intervals[i].end, members.entry_count);
    weight.over_all += static_cast<double>(members.bytes[i]) * (end - intervals[i].begin);
  }
  std::vector<uint32_t> order(group_count);
  std::iota(order.begin(), order.end(), 0);
  // Empty groups get no row.
  std::erase_if(order, [&](uint32_t group) { return weights[group].over_all <= 0; });
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(weights[a].at_peak, weights[a].over_all) >
           std::pair(weights[b].at_peak, weights[b].over_all);
  });
  has_others_ = order.size() > kMaxGroups;
  if (has_others_) order.resize(kMaxGroups);
  shown_ = std::move(order);

  std::vector<uint8_t> rows(group_count, static_cast<uint8_t>(shown_.size()));
  for (size_t i = 0; i < shown_.size(); ++i) rows[shown_[i]] = static_cast<uint8_t>(i);
  row_of_.reserve(group_of.size());
  for (const uint32_t group : group_of) row_of_.push_back(rows[group]);
}

}  // namespace ashlar::view
