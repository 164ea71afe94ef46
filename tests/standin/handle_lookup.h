// SPDX-License-Identifier: Apache-2.0
//
// Handle lookup that aborts on an unknown handle, like a driver.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace ashlar::standin {

[[noreturn]] inline void abort_on_handle(const char* what, uint64_t handle) {
  std::fprintf(stderr, "stand-in driver: no such %s: %llu\n", what,
               static_cast<unsigned long long>(handle));
  std::abort();
}

template <typename Map>
typename Map::mapped_type& find_or_abort(Map& map, const char* what, uint64_t handle) {
  const auto found = map.find(handle);
  if (found == map.end()) abort_on_handle(what, handle);
  return found->second;
}

}  // namespace ashlar::standin
