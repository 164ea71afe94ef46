// SPDX-License-Identifier: Apache-2.0
//
// Files that the kernel writes while they are read, such as those below /proc.
#pragma once

#include <string>

#include "ashlar/status.h"

namespace ashlar {

// All of it, up to 64 MiB. kDeviceFault: it cannot be read; the message starts with the path.
Result<std::string> read_system_file(const char* path);

}  // namespace ashlar
