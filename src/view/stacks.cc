// SPDX-License-Identifier: Apache-2.0
//
// Serializes stacks as JSON and their requested bytes as columns.
#include "view/stacks.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "analysis/timeline.h"
#include "view/columns.h"
#include "view/json_text.h"

namespace ashlar::view {

std::string stacks_json(const Document& document) {
  using OrderedJson = nlohmann::ordered_json;
  const StackIndex& index = document.recording().stacks();
  std::map<const Frame*, uint32_t> numbers;
  OrderedJson frames = OrderedJson::array();
  OrderedJson stacks = OrderedJson::array();
  for (uint32_t i = 0; i < index.size(); ++i) {
    std::vector<const Frame*> outermost_first = index.frames(i);
    std::reverse(outermost_first.begin(), outermost_first.end());
    OrderedJson stack = OrderedJson::array();
    for (const Frame* frame : outermost_first) {
      const auto [place, is_new] = numbers.try_emplace(frame, frames.size());
      if (is_new) frames.push_back({frame->name, frame->filename, frame->line});
      stack.push_back(place->second);
    }
    stacks.push_back(std::move(stack));
  }
  return json_text({{"frames", frames}, {"stacks", stacks}});
}

namespace {

// Adds the bytes by stack and category.
void add_split(const Document& document, const std::vector<uint32_t>& ids, Columns& response) {
  struct Sum {
    double bytes = 0;
    uint32_t count = 0;
  };
  std::map<std::pair<uint32_t, uint8_t>, Sum> sums;
  for (const uint32_t id : ids) {
    const Allocation& each = document.allocations().all[id];
    Sum& sum = sums[{document.stack_of(each), document.category_of(id)}];
    sum.bytes += static_cast<double>(each.bytes);
    ++sum.count;
  }
  const std::vector<std::pair<std::pair<uint32_t, uint8_t>, Sum>> rows(sums.begin(), sums.end());
  response.add("split_stack", rows, [](const auto& row) { return row.first.first; });
  response.add("split_category", rows, [](const auto& row) { return row.first.second; });
  response.add("split_bytes", rows, [](const auto& row) { return row.second.bytes; });
  response.add("split_count", rows, [](const auto& row) { return row.second.count; });
}

}  // namespace

std::string stack_columns(const Document& document, uint32_t moment) {
  std::vector<uint32_t> present;
  for (const uint32_t rank : document.intervals().at(moment)) {
    present.push_back(document.ids()[rank]);
  }
  std::vector<uint32_t> stacks;
  std::vector<double> bytes;
  std::vector<uint32_t> counts;
  for (const StackTotal& total :
       group_by_stack(document.allocations(), present, document.recording().stack_numbers())) {
    stacks.push_back(total.stack);
    bytes.push_back(static_cast<double>(total.bytes));
    counts.push_back(static_cast<uint32_t>(total.count));
  }
  Columns columns;
  columns.add("stack", stacks);
  columns.add("bytes", bytes);
  columns.add("count", counts);
  add_split(document, present, columns);
  return columns.take();
}

}  // namespace ashlar::view
