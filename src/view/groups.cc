// SPDX-License-Identifier: Apache-2.0
//
// Two sums for each group; the greatest are found by them.
#include "view/groups.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ashlar::view {
namespace {

struct Weight {
  uint64_t at_peak = 0;
  double over_all = 0;  // bytes times entries
};

}  // namespace

Groups::Groups(const Members& members, const std::vector<uint32_t>& group_of) {
  const std::vector<Life>& lives = members.lives.all();
  uint32_t group_count = 0;
  for (const uint32_t group : group_of) group_count = std::max(group_count, group + 1);
  std::vector<Weight> weights(group_count);
  for (size_t i = 0; i < lives.size(); ++i) {
    Weight& weight = weights[group_of[i]];
    if (lives[i].is_at(members.peak)) weight.at_peak += members.bytes[i];
    const uint32_t end = std::min(lives[i].end, members.entry_count);
    weight.over_all += static_cast<double>(members.bytes[i]) * (end - lives[i].begin);
  }
  std::vector<uint32_t> order(group_count);
  std::iota(order.begin(), order.end(), 0);
  // Groups that nothing belongs to are not worth a row.
  std::erase_if(order, [&](uint32_t group) { return weights[group].over_all <= 0; });
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(weights[a].at_peak, weights[a].over_all) >
           std::pair(weights[b].at_peak, weights[b].over_all);
  });
  has_others_ = order.size() > kMostGroups;
  if (has_others_) order.resize(kMostGroups);
  shown_ = std::move(order);

  std::vector<uint8_t> places(group_count, static_cast<uint8_t>(shown_.size()));
  for (size_t i = 0; i < shown_.size(); ++i) places[shown_[i]] = static_cast<uint8_t>(i);
  place_of_.reserve(group_of.size());
  for (const uint32_t group : group_of) place_of_.push_back(places[group]);
}

}  // namespace ashlar::view
