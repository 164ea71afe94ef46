// SPDX-License-Identifier: Apache-2.0
//
// Sections of `ashlar report` about training and inference programs: categories, iterations, and
// the groups of --by.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/training/grouping.h"

namespace ashlar {

// Returns a table of the categories, with a heading: the bytes of each at the peak of the run, and
// at its own peak.
std::string categories_as_text(const DeviceRecording& run);

// Returns, with a heading, the iteration with the highest peak, its difference from the median
// iteration, and the highest peak of each phase; or why no iterations were found.
std::string iterations_as_text(const DeviceRecording& run);

// Returns the largest groups of the allocations that are live at the peak, at most `top` groups,
// with a heading. Categories are divided by the rules that assigned them.
std::string groups_by_as_text(const DeviceRecording& run, GroupBy by, size_t top);

// Returns the largest groups, at most `top` of them, with a heading that names the criterion.
std::string groups_as_text(const DeviceRecording& run, const std::string& criterion,
                           const std::vector<AllocationGroup>& groups, size_t top);

}  // namespace ashlar
