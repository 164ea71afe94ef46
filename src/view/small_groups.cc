// SPDX-License-Identifier: Apache-2.0
//
// Collects changes per row and column, then sums them up.
#include "view/small_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/training/categories.h"

namespace ashlar::view {
namespace {

// Sums of bytes: one row per group, one value per column of the tile.
class GroupSums {
 public:
  GroupSums(size_t row_count, uint32_t column_count)
      : stride_(column_count + size_t{1}), changes_(row_count * stride_) {}

  // Adds an allocation to a row. Sums may wrap for inconsistent files.
  void add(size_t row, const ShownAllocation& shown, uint64_t bytes) {
    changes_[row * stride_ + shown.begin] += bytes;
    changes_[row * stride_ + shown.end] -= bytes;
  }

  std::vector<double> row(size_t row) const {
    std::vector<double> sums;
    uint64_t now = 0;
    for (size_t column = 0; column + 1 < stride_; ++column) {
      now += changes_[row * stride_ + column];
      sums.push_back(static_cast<double>(now));
    }
    return sums;
  }

 private:
  const size_t stride_;  // one more than the columns, for allocations that outlive the tile
  std::vector<uint64_t> changes_;
};

// Returns the kMaxSmallStacks stacks with the largest sums over all columns, largest first.
std::vector<uint32_t> largest_stacks(const Document& document,
                                     const std::vector<ShownAllocation>& small) {
  std::map<uint32_t, double> weights;
  for (const ShownAllocation& each : small) {
    const auto bytes = static_cast<double>(document.bytes()[each.rank]);
    weights[document.stack_of(document.allocation(each.rank))] += bytes * (each.end - each.begin);
  }
  std::vector<std::pair<double, uint32_t>> sorted;
  for (const auto& [stack, weight] : weights) sorted.emplace_back(weight, stack);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (sorted.size() > kMaxSmallStacks) sorted.resize(kMaxSmallStacks);
  std::vector<uint32_t> stacks;
  for (const auto& [weight, stack] : sorted) stacks.push_back(stack);
  return stacks;
}

void append(const std::vector<double>& values, std::vector<double>& to) {
  to.insert(to.end(), values.begin(), values.end());
}

void add_stacks(const Document& document, const std::vector<ShownAllocation>& small,
                uint32_t column_count, Columns& response) {
  std::vector<uint32_t> stacks = largest_stacks(document, small);
  std::map<uint32_t, size_t> rows;
  for (const uint32_t stack : stacks) rows.emplace(stack, rows.size());
  GroupSums sums(stacks.size() + 1, column_count);
  bool has_others = false;
  for (const ShownAllocation& each : small) {
    const auto row = rows.find(document.stack_of(document.allocation(each.rank)));
    has_others = has_others || row == rows.end();
    sums.add(row == rows.end() ? stacks.size() : row->second, each, document.bytes()[each.rank]);
  }
  if (has_others) stacks.push_back(kNoIndex);
  std::vector<double> bytes;
  for (size_t row = 0; row < stacks.size(); ++row) append(sums.row(row), bytes);
  response.add("small_stack", stacks);
  response.add("stack_bytes", bytes);
}

void add_categories(const Document& document, const std::vector<ShownAllocation>& small,
                    uint32_t column_count, Columns& response) {
  GroupSums sums(kCategoryCount, column_count);
  std::vector<bool> occurs(kCategoryCount);
  for (const ShownAllocation& each : small) {
    const uint8_t category = document.category_of(document.ids()[each.rank]);
    occurs[category] = true;
    sums.add(category, each, document.bytes()[each.rank]);
  }
  std::vector<uint8_t> categories;
  std::vector<double> bytes;
  for (uint8_t category = 0; category < kCategoryCount; ++category) {
    if (!occurs[category]) continue;
    categories.push_back(category);
    append(sums.row(category), bytes);
  }
  response.add("small_category", categories);
  response.add("category_bytes", bytes);
}

}  // namespace

void add_small_groups(const Document& document, const std::vector<ShownAllocation>& small,
                      uint32_t column_count, Columns& response) {
  add_stacks(document, small, column_count, response);
  add_categories(document, small, column_count, response);
}

}  // namespace ashlar::view
