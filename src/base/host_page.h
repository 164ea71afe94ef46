// SPDX-License-Identifier: Apache-2.0
//
// The size of the host's pages.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace ashlar {

inline size_t host_page_bytes() {
  const long bytes = ::sysconf(_SC_PAGESIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : 4096;
}

}  // namespace ashlar
