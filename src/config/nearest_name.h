// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean …?": the known name that a mistyped one most likely stood for. Used wherever an
// unknown name is an error: environment variables, sub-commands, options.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace ashlar {

// The known name with the fewest edits (a letter inserted, removed, replaced, or swapped with its
// neighbour) from `wanted`; the first of several. Empty when even that one is too far to be meant.
std::optional<std::string_view> nearest_name(std::string_view wanted,
                                             std::span<const std::string_view> known);

}  // namespace ashlar
