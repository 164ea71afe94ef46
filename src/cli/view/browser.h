// SPDX-License-Identifier: Apache-2.0
//
// Starts the user's browser.
#pragma once

#include <string>

#include "config/environment.h"

namespace ashlar {

// Runs xdg-open without waiting for it, if a display is available. Returns whether xdg-open was
// started.
bool start_browser(const std::string& address, const Environment& environment);

}  // namespace ashlar
