// SPDX-License-Identifier: Apache-2.0
//
// Writes a self-contained HTML file: the page with as many embedded responses as fit, overviews
// before details. The file works offline.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ashlar/status.h"
#include "view/viewer.h"

namespace ashlar::view {

inline constexpr std::string_view kResponsesMarker = "<!--ashlar:responses-->";

inline constexpr size_t kMailableBytes = 8'000'000;  // small enough for mail and CI artifacts

// Returns the HTML file. The scene and, for each document, its stacks, the results of all analyses
// and the topmost tile of allocations are included even if the file then exceeds `max_bytes`.
// kInvalidArgument: the page does not contain kResponsesMarker.
Result<std::string> self_contained_page(const Viewer& view, std::string_view page,
                                        size_t max_bytes = kMailableBytes);

// These functions are exposed for tests.
std::string base64(std::string_view bytes);
std::string compress(std::string_view bytes);  // zlib, RFC 1950

}  // namespace ashlar::view
