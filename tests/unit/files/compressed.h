// SPDX-License-Identifier: Apache-2.0
//
// Bytes compressed as users' files are.
#pragma once

#include <string>
#include <string_view>

namespace ashlar {

enum class Compression { kNone, kXz, kZstd, kGzip };

std::string compressed(std::string_view bytes, Compression compression);

}  // namespace ashlar
