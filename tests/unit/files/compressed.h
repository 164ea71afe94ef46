// SPDX-License-Identifier: Apache-2.0
//
// Compresses bytes like the command-line tools do.
#pragma once

#include <string>
#include <string_view>

namespace ashlar {

enum class Compression { kNone, kXz, kZstd, kGzip };

std::string compressed(std::string_view bytes, Compression compression);

}  // namespace ashlar
