// SPDX-License-Identifier: Apache-2.0
//
// The word that opens the door: whoever knows it may ask. It is drawn anew for every server.
#pragma once

#include <string>
#include <string_view>

#include "ashlar/status.h"

namespace ashlar::http {

// 128 random bits, as letters and digits that need no escaping.
// kDeviceFault: the system has no random bytes.
Result<std::string> draw_token();

// Takes as long for any two texts of these lengths, however much of them is the same.
bool same_token(std::string_view given, std::string_view wanted);

}  // namespace ashlar::http
