// SPDX-License-Identifier: Apache-2.0
//
// The same sums as `ashlar report` makes at the peak.
#include "view/stack_use.h"

#include "analysis/timeline.h"
#include "view/columns.h"

namespace ashlar::view {

std::string stacks_at(const Document& document, uint32_t moment) {
  std::vector<uint32_t> present;
  for (const uint32_t rank : document.lives().at(moment)) {
    present.push_back(document.ids()[rank]);
  }
  std::vector<uint32_t> stacks;
  std::vector<double> bytes;
  std::vector<uint32_t> counts;
  for (const StackUse& use :
       group_by_stack(document.allocations(), present, document.recording().stack_numbers())) {
    stacks.push_back(use.stack);
    bytes.push_back(static_cast<double>(use.bytes));
    counts.push_back(static_cast<uint32_t>(use.count));
  }
  Columns answer;
  answer.add("stack", stacks);
  answer.add("bytes", bytes);
  answer.add("count", counts);
  return answer.take();
}

}  // namespace ashlar::view
