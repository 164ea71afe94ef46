// SPDX-License-Identifier: Apache-2.0
//
// Groups allocations by category, phase, iteration, annotation or compile context. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/recording.h"

namespace ashlar {

enum class GroupBy : uint8_t {
  kCategory,
  kPhase,       // in which the allocation was made
  kIteration,   // in which the allocation was made
  kAnnotation,  // the innermost annotated range or, without one, the user metadata of the entry
  kContext,     // the compile context: a region of compiled code
};

// Returns the value with the name "category", "phase", "iteration", "annotation" or "context".
std::optional<GroupBy> parse_group_by(std::string_view name);

// Returns the indexes into Allocations::all of the allocations at Timeline::reserved_peak.
std::vector<uint32_t> allocations_at_peak(const DeviceRecording& recording);

struct AllocationGroup {
  std::string name{};
  size_t bytes = 0;
  size_t count = 0;
  friend bool operator==(const AllocationGroup&, const AllocationGroup&) = default;
};

// Returns the groups of the selected allocations, largest first.
std::vector<AllocationGroup> group_allocations(const DeviceRecording& recording,
                                               const std::vector<uint32_t>& selected, GroupBy by);

}  // namespace ashlar
