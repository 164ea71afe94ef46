// SPDX-License-Identifier: Apache-2.0
//
// Categories, iterations and phases of a recording as JSON, for `ashlar report --json` and the
// viewer.
#pragma once

#include <cstddef>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/training/grouping.h"

namespace ashlar {

// Returns [{"name", "bytes_at_peak", "max_bytes", "rules": [{"rule", "bytes_at_peak", "count"}]}].
// "bytes_at_peak" and "count" refer to Timeline::reserved_peak, "max_bytes" is the category's own
// peak over the whole run. Categories that never have bytes are omitted.
nlohmann::ordered_json categories_json(const DeviceRecording& run);

// Returns the iterations with their peaks by phase, and the highest one. Entries are indexes into
// the trace.
nlohmann::ordered_json iterations_json(const DeviceRecording& run);

// Returns the categories, the iterations and the phases of a recording, for the viewer. Lists at
// most the first kMaxListed phases and iterations; "phase_count" and "iteration_count" count all.
inline constexpr size_t kMaxListed = 20'000;
nlohmann::ordered_json training_json(const DeviceRecording& run);

// Returns [{"name", "bytes", "count"}].
nlohmann::ordered_json groups_json(const std::vector<AllocationGroup>& groups);

}  // namespace ashlar
