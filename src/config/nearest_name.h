// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean …?" suggestions for unknown names, such as those of variables, sub-commands and
// functions.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace ashlar {

// Returns the known name that is the fewest edits away from `wanted`, and the first such name if
// there are several. An edit inserts, removes or replaces a letter, or swaps two adjacent letters.
// Returns nullopt if all names are too different.
std::optional<std::string_view> nearest_name(std::string_view wanted,
                                             std::span<const std::string_view> known);

}  // namespace ashlar
