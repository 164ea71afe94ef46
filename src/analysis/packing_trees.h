// SPDX-License-Identifier: Apache-2.0
//
// Two segment trees over lifetimes with which packing.cc indexes the lifetimes that it has placed.
// Leaves are the lifetimes sorted by begin; a lifetime's position in that order is its rank. Trees
// are stored as arrays: the children of node n are 2n and 2n + 1.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ashlar {

// Finds the placed lifetimes that overlap a given lifetime.
class OverlapIndex {
 public:
  explicit OverlapIndex(size_t count) : leaf_count_(std::bit_ceil(std::max<size_t>(count, 1))) {
    latest_end_.assign(2 * leaf_count_, 0);
  }

  void clear() { std::fill(latest_end_.begin(), latest_end_.end(), 0); }

  void place(size_t rank, uint32_t end) {
    for (size_t node = rank + leaf_count_; node > 0; node /= 2) {
      latest_end_[node] = std::max(latest_end_[node], end);
    }
  }

  // Finds the placed lifetimes of rank below `rank_count` that end after `begin`. Returns false if
  // there are more than `limit`.
  bool find(size_t rank_count, uint32_t begin, size_t limit, std::vector<uint32_t>& found) const {
    found.clear();
    return descend(1, 0, leaf_count_, {rank_count, begin, limit}, found);
  }

 private:
  struct Query {
    size_t rank_count;
    uint32_t begin;
    size_t limit;
  };

  // The recursion is at most 33 levels deep, because ranks have 32 bits.
  bool descend(size_t node, size_t first, size_t width, const Query& query,
               std::vector<uint32_t>& found) const {
    if (first >= query.rank_count || latest_end_[node] <= query.begin) return true;
    if (width == 1) {
      if (found.size() == query.limit) return false;
      found.push_back(static_cast<uint32_t>(first));
      return true;
    }
    const size_t half = width / 2;
    return descend(2 * node, first, half, query, found) &&
           descend(2 * node + 1, first + half, half, query, found);
  }

  size_t leaf_count_;
  std::vector<uint32_t> latest_end_;  // per node: the latest end of placed lifetimes; 0: none
};

// The highest address in use over time. Time is measured in ranks, which suffices: if two lifetimes
// overlap, one begins within the other.
class Skyline {
 public:
  explicit Skyline(size_t count) : leaf_count_(std::bit_ceil(std::max<size_t>(count, 1))) {
    highest_.assign(2 * leaf_count_, 0);
    raised_.assign(2 * leaf_count_, 0);
  }

  void clear() {
    std::fill(highest_.begin(), highest_.end(), 0);
    std::fill(raised_.begin(), raised_.end(), 0);
  }

  // Returns the highest address in use over the ranks [first, last).
  uint64_t highest(size_t first, size_t last) const {
    uint64_t found = 0;
    size_t left = first + leaf_count_;
    size_t right = last + leaf_count_ - 1;
    for (size_t node = left; node > 0; node /= 2) found = std::max(found, raised_[node]);
    for (size_t node = right; node > 0; node /= 2) found = std::max(found, raised_[node]);
    for (++right; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) found = std::max(found, highest_[left++]);
      if (right % 2 == 1) found = std::max(found, highest_[--right]);
    }
    return found;
  }

  void raise(size_t first, size_t last, uint64_t top) {
    size_t left = first + leaf_count_;
    size_t right = last + leaf_count_;
    const size_t outer_left = left;
    const size_t outer_right = right - 1;
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) raise_node(left++, top);
      if (right % 2 == 1) raise_node(--right, top);
    }
    update_above(outer_left);
    update_above(outer_right);
  }

 private:
  void raise_node(size_t node, uint64_t top) {
    highest_[node] = std::max(highest_[node], top);
    raised_[node] = std::max(raised_[node], top);
  }
  void update_above(size_t node) {
    for (node /= 2; node > 0; node /= 2) {
      highest_[node] = std::max({raised_[node], highest_[2 * node], highest_[2 * node + 1]});
    }
  }

  size_t leaf_count_;
  std::vector<uint64_t> highest_;  // per node: maximum below it, without raises of its ancestors
  std::vector<uint64_t> raised_;   // per node: all ranks below it are at least this high
};

}  // namespace ashlar
