// SPDX-License-Identifier: Apache-2.0
//
// The viewer's page that is embedded in the tool.
#pragma once

#include <string>

#include "ashlar/status.h"

namespace ashlar::view {

// The HTML of the page; empty if the build has none.
std::string built_in_page();

// The error message if the build has no page.
inline constexpr const char* kNoPage =
    "this build has no viewer page: install Node and npm (scripts/setup), then build the target "
    "viewer_page and the tool again";

}  // namespace ashlar::view
