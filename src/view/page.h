// SPDX-License-Identifier: Apache-2.0
//
// The page that the tool carries.
#pragma once

#include <string>

#include "ashlar/status.h"

namespace ashlar::view {

// The HTML of the page; empty: this build has none.
std::string built_in_page();

// What to say then: what is missing, and how to get it.
inline constexpr const char* kNoPage =
    "this build has no page to show: install Node and npm (scripts/setup), then build the target "
    "viewer_page and the tool again";

}  // namespace ashlar::view
