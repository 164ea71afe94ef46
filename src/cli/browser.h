// SPDX-License-Identifier: Apache-2.0
//
// Starting the user's browser, where there is one.
#pragma once

#include <string>

#include "config/environment.h"

namespace ashlar {

// Where there is a screen and xdg-open; elsewhere, nothing happens: the address was printed. Nobody
// waits for it. Whether it was started.
bool start_browser(const std::string& address, const Environment& environment);

}  // namespace ashlar
