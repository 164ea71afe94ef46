// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar oom` answers to programs.
#pragma once

#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/oom.h"
#include "analysis/stack_index.h"
#include "answers/recorded_run.h"

namespace ashlar {

// The stacks of a snapshot, by the ids that its entries have.
class RecordedStacks {
 public:
  explicit RecordedStacks(const SnapshotTables& tables) : numbers_(index_.add(tables)) {}

  std::vector<const Frame*> frames(StackId stack) const {
    return index_.frames(stack_number(numbers_, stack));
  }

 private:
  StackIndex index_;
  std::vector<uint32_t> numbers_;
};

// `report`: unset where nothing failed.
nlohmann::ordered_json oom_answer(const RecordedRun& recording,
                                  const std::optional<OomReport>& report);

}  // namespace ashlar
