// SPDX-License-Identifier: Apache-2.0
//
// A rank's position in its group, and helpers that name ranks in messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "base/text.h"

namespace ashlar::symm {

// A rank of a group and the group's size. Invariant: 0 <= rank < world_size.
struct RankInfo {
  int rank = 0;
  int world_size = 1;

  // Returns kInvalidArgument if the group has no rank `other`.
  Status check_rank(int other) const {
    if (other >= 0 && other < world_size) return {};
    return Status::invalid_argument(text("rank ", other, ": expected 0 to ", world_size - 1));
  }
};

// Returns "rank 3", "ranks 1 and 3" or "ranks 1, 3 and 5". REQUIRES: `ranks` is not empty.
inline std::string name_ranks(std::span<const int> ranks) {
  std::string named = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    const bool is_last = i + 1 == ranks.size();
    named += text(i == 0 ? "" : is_last ? " and " : ", ", ranks[i]);
  }
  return named;
}

// Returns "rank 0: 16, rank 1: 32", or an empty string if `value(rank)` is the same for all ranks.
template <typename Value>
std::string list_differences(int world_size, const Value& value) {
  bool is_same = true;
  std::string listed;
  for (int rank = 0; rank < world_size; ++rank) {
    is_same &= value(rank) == value(0);
    listed += text(rank == 0 ? "" : ", ", "rank ", rank, ": ", value(rank));
  }
  return is_same ? std::string() : listed;
}

// Combines the ranks' reasons for not supporting a feature into one message, which is the same on
// every rank. `reason(rank)` is empty if the rank supports the feature. Returns an empty string if
// all ranks support it.
template <typename Reason>
std::string unsupported_reason(std::string_view summary, int world_size, const Reason& reason) {
  const auto support = [&](int rank) -> std::string {
    return reason(rank).empty() ? "it has" : reason(rank);
  };
  const std::string listed = list_differences(world_size, support);
  return listed.empty() ? reason(0) : text(summary, ": ", listed);
}

}  // namespace ashlar::symm
