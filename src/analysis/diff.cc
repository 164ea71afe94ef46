// SPDX-License-Identifier: Apache-2.0
//
// Sums up each side by key, then pairs the sums of equal keys.
#include "analysis/diff.h"

#include <algorithm>
#include <map>

#include "analysis/allocations.h"

namespace ashlar {
namespace {

using Rows = std::map<uint64_t, DiffRow>;
using KeepGoing = std::function<bool()>;

constexpr size_t kDiffPollPeriod = 4096;  // allocations between polls of keep_going

std::map<StreamId, uint64_t> stream_numbers(const Allocations& allocations);
template <typename Key>
Rows add_up(const DiffSide& side, const KeepGoing& keep_going, Key key);
std::vector<DiffRow> compare(const Rows& base, const Rows& now);

}  // namespace

Diff make_diff(const DiffSide& base, const DiffSide& now, const KeepGoing& keep_going) {
  const auto by_stack = [&](const DiffSide& side) {
    return add_up(side, keep_going, [&](const Allocation& allocation) {
      return stack_number(side.stack_numbers, allocation);
    });
  };
  const auto by_size_class = [&](const DiffSide& side) {
    return add_up(side, keep_going,
                  [](const Allocation& allocation) { return size_class_of(allocation.bytes); });
  };
  const auto by_stream = [&](const DiffSide& side) {
    const std::map<StreamId, uint64_t> numbers = stream_numbers(side.allocations);
    return add_up(side, keep_going,
                  [&](const Allocation& allocation) { return numbers.at(allocation.stream); });
  };
  return {.by_stack = compare(by_stack(base), by_stack(now)),
          .by_size_class = compare(by_size_class(base), by_size_class(now)),
          .by_stream = compare(by_stream(base), by_stream(now))};
}

namespace {

std::map<StreamId, uint64_t> stream_numbers(const Allocations& allocations) {
  std::map<StreamId, uint64_t> numbers = {{kDefaultStream, 0}};
  for (const Allocation& allocation : allocations.all) {
    numbers.try_emplace(allocation.stream, numbers.size());
  }
  return numbers;
}

// Sums up one side by key, in the rows' base fields. For the new side, compare() copies these sums
// to the rows' new fields.
template <typename Key>
Rows add_up(const DiffSide& side, const KeepGoing& keep_going, Key key) {
  Rows rows;
  for (size_t i = 0; i < side.selected.size(); ++i) {
    if (keep_going && i % kDiffPollPeriod == 0 && !keep_going()) break;
    const Allocation& allocation = side.allocations.all[side.selected[i]];
    DiffRow& row = rows[key(allocation)];
    row.base_bytes += allocation.bytes;
    ++row.base_count;
  }
  return rows;
}

std::vector<DiffRow> compare(const Rows& base, const Rows& now) {
  Rows both = base;
  for (const auto& [key, row] : now) {
    both[key].new_bytes = row.base_bytes;
    both[key].new_count = row.base_count;
  }
  std::vector<DiffRow> rows;
  for (auto& [key, row] : both) {
    row.key = key;
    rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const DiffRow& left, const DiffRow& right) {
    const auto size = [](const DiffRow& row) {
      return std::max(row.base_bytes, row.new_bytes) - std::min(row.base_bytes, row.new_bytes);
    };
    if (size(left) != size(right)) return size(left) > size(right);
    return left.base_bytes > right.base_bytes;
  });
  return rows;
}

}  // namespace
}  // namespace ashlar
