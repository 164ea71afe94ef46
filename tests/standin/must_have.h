// SPDX-License-Identifier: Apache-2.0
//
// Looking a handle up as a driver does: one that was never given out ends the process.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace ashlar::standin {

[[noreturn]] inline void end_process(const char* what, uint64_t handle) {
  std::fprintf(stderr, "stand-in driver: no such %s: %llu\n", what,
               static_cast<unsigned long long>(handle));
  std::abort();
}

template <typename Map>
typename Map::mapped_type& must_have(Map& map, const char* what, uint64_t handle) {
  const auto found = map.find(handle);
  if (found == map.end()) end_process(what, handle);
  return found->second;
}

}  // namespace ashlar::standin
