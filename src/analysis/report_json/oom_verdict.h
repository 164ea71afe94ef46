// SPDX-License-Identifier: Apache-2.0
//
// The conclusions of `ashlar oom`: why the request failed, which stacks hold the memory, and which
// changes would have avoided the failure. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/replay/oom.h"
#include "analysis/training/categories.h"

namespace ashlar {

// The allocations of one stack that are in use or pending free at the failure.
struct OomHolder {
  uint32_t stack = 0;  // number in Recording::stacks()
  size_t bytes = 0;
  size_t count = 0;
  Category category{};  // the category with the most bytes
};

// Returns the holders of the requested bytes in use at the failure, largest first.
std::vector<OomHolder> holders_at_failure(const DeviceRecording& run, const OomReport& report,
                                          StackDetail detail = StackDetail::kUserCode);

// Returns the requested bytes in use at the failure, by category.
CategoryBytes categories_at_failure(const DeviceRecording& run, const OomReport& report);

// Returns OomReport::excess_bytes() if no allocator could serve the run within the limit.
// Otherwise, returns how many reserved bytes must be returned to the device before a segment for
// the failed request can be obtained.
size_t missing_bytes(const OomReport& report);

// Returns the key of a reason in JSON: "in_use", "fragmented", "other_arenas", "rounding" or
// "unexplained".
const char* key_of(OomReason reason);

// Returns one to three sentences: the reason with its numbers and, if the memory limit changed
// during the run, a note that says so.
std::string verdict_text(const OomReport& report);

// Returns the changes that would have avoided the failure or, if settings cannot be compared, the
// reason. Each element is a sentence or two; the most useful comes first. Settings are formatted as
// shell assignments.
std::vector<std::string> remedies(const DeviceRecording& run, const OomReport& report);

}  // namespace ashlar
