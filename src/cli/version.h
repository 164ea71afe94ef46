// SPDX-License-Identifier: Apache-2.0
//
// The version this binary was built as; the build sets ASHLAR_VERSION.
#pragma once

#include <string_view>

namespace ashlar {

inline constexpr std::string_view kVersion = ASHLAR_VERSION;

}  // namespace ashlar
