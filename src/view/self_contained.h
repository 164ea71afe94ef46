// SPDX-License-Identifier: Apache-2.0
//
// One file with everything in it: the page, and the answers to as many questions as fit, the ones
// that show the whole before the ones that show details. Opens offline, and can be mailed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "view/view.h"

namespace ashlar::view {

inline constexpr std::string_view kAnswersMark = "<!--ashlar:answers-->";

inline constexpr size_t kMailableBytes = 8'000'000;  // what mail and CI take without asking

// What cannot be done without is there even if it takes more than `most_bytes`.
// kInvalidArgument: the page has no place for answers.
Result<std::string> self_contained(const View& view, std::string_view page,
                                   size_t most_bytes = kMailableBytes);

// For tests of it, and of others that pack.
std::string base64(std::string_view bytes);
std::string compress(std::string_view bytes);  // zlib, RFC 1950

}  // namespace ashlar::view
