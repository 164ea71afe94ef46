// SPDX-License-Identifier: Apache-2.0
//
// Information about the operating system.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <string>

#include "ashlar/status.h"

namespace ashlar {

// Returns the size of a host page.
inline size_t host_page_bytes() {
  const long bytes = ::sysconf(_SC_PAGESIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : 4096;
}

// Returns the contents of a file whose size the system does not report, such as a file in /proc, up
// to 64 MiB. kDeviceFault: the file cannot be read; the message starts with the path.
Result<std::string> read_system_file(const char* path);

}  // namespace ashlar
