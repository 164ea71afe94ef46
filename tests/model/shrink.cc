// SPDX-License-Identifier: Apache-2.0
//
// Shrinks a list of operations to the relevant operations.
#include "model_runs.h"

namespace ashlar::model {
namespace {

// Removes ranges that the disagreement does not need: first long ranges, then ever shorter ranges.
std::vector<Operation> remove_irrelevant_ranges(const Trial& trial,
                                                std::vector<Operation> operations) {
  for (size_t chunk = operations.size() / 2; chunk > 0; chunk /= 2) {
    for (size_t at = 0; at + chunk <= operations.size();) {
      std::vector<Operation> candidate = operations;
      const auto begin = candidate.begin() + static_cast<ptrdiff_t>(at);
      candidate.erase(begin, begin + static_cast<ptrdiff_t>(chunk));
      const std::optional<Disagreement> found = trial.run(candidate, 1);
      if (found) candidate.resize(found->step + 1);
      if (found) operations = std::move(candidate);
      if (!found) at += chunk;
    }
  }
  return operations;
}

}  // namespace

std::vector<Operation> shrink(const Trial& trial, std::vector<Operation> operations) {
  operations = trial.set_targets(std::move(operations));
  for (size_t before = SIZE_MAX; operations.size() < before;) {
    before = operations.size();
    operations = remove_irrelevant_ranges(trial, std::move(operations));
  }
  return operations;
}

}  // namespace ashlar::model
