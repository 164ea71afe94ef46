// SPDX-License-Identifier: Apache-2.0
//
// The page of the viewer that is embedded in the program.
#pragma once

#include <string>

#include "ashlar/status.h"

namespace ashlar::view {

// Returns the HTML of the page; empty if the build has no page.
std::string embedded_viewer_page();

// The error message if the build has no page.
inline constexpr const char* kNoViewerPage =
    "this build has no viewer page: install Node and npm (scripts/setup), then build the target "
    "viewer_page and the tool again";

}  // namespace ashlar::view
