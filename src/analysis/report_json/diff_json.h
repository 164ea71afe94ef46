// SPDX-License-Identifier: Apache-2.0
//
// Compares two recordings at one moment each: the data and the JSON of `ashlar diff`.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/diff.h"
#include "analysis/recording.h"
#include "analysis/stack_index.h"

namespace ashlar {

enum class ComparisonPoint {
  kEnd,
  kPeak,  // Timeline::reserved_peak of each recording
};

// One of the two recordings, with the allocations that are compared.
struct ComparedSide {
  const DeviceRecording& run;
  std::vector<uint32_t> stack_numbers{};
  std::vector<uint32_t> selected{};

  DiffSide as_diff_side() const { return {run.allocations(), stack_numbers, selected}; }
  size_t bytes() const;
};

struct ComparedRuns {
  ComparisonPoint at{};
  ComparedSide base;
  ComparedSide now;
  StackIndex stacks;
  Diff diff{};
};

struct ComparisonOptions {
  ComparisonPoint at{};
  StackDetail stacks = StackDetail::kUserCode;
  std::function<bool()> keep_going{};  // as in make_diff()
};

// REQUIRES: the recordings outlive the result.
ComparedRuns compare_runs(const DeviceRecording& base, const DeviceRecording& now,
                          const ComparisonOptions& options);

nlohmann::ordered_json diff_json(const ComparedRuns& compared);

}  // namespace ashlar
