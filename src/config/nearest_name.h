// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean …?" suggestions for unknown names of variables, sub-commands and options.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace ashlar {

// The first known name with the fewest edits from `wanted`, where an edit inserts, removes or
// replaces a letter or swaps two neighbours. Empty if all are too different.
std::optional<std::string_view> nearest_name(std::string_view wanted,
                                             std::span<const std::string_view> known);

}  // namespace ashlar
