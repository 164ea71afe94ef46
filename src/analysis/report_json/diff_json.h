// SPDX-License-Identifier: Apache-2.0
//
// Two recorded runs at one moment each, and what `ashlar diff` answers to programs.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/diff.h"
#include "analysis/recording.h"
#include "analysis/stack_index.h"

namespace ashlar {

enum class ComparedAt {
  kEnd,
  kPeak,  // when each had the most requested bytes
};

// One of the two runs, with what is compared of it.
struct ComparedSide {
  const DeviceRecording& run;
  std::vector<uint32_t> stack_numbers{};
  std::vector<uint32_t> which{};

  DiffSide as_diff_side() const { return {run.allocations(), stack_numbers, which}; }
  size_t bytes() const;
};

struct ComparedRuns {
  ComparedAt at{};
  ComparedSide base;
  ComparedSide now;
  StackIndex stacks{};
  Diff diff{};
};

// The runs outlive what comes of it.
ComparedRuns compare_runs(const DeviceRecording& base, const DeviceRecording& now, ComparedAt at);

nlohmann::ordered_json diff_json(const ComparedRuns& compared);

}  // namespace ashlar
