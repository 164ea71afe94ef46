// SPDX-License-Identifier: Apache-2.0
//
// Converts the affinity mask of a thread to a bit string.
#include "symm/core/cpu_set.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace ashlar::symm {

CpuSet CpuSet::of_thread() {
  static_assert(CPU_SETSIZE == 8 * kMaxBytes);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::string bits;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    bits.resize(core / 8 + 1);
    bits[core / 8] = static_cast<char>(bits[core / 8] | 1 << core % 8);
  }
  return CpuSet(bits);
}

void CpuSet::add(const CpuSet& other) {
  bits_.resize(std::max(bits_.size(), other.bits_.size()));
  for (size_t i = 0; i < other.bits_.size(); ++i) {
    bits_[i] = static_cast<char>(bits_[i] | other.bits_[i]);
  }
}

int CpuSet::count() const {
  int count = 0;
  for (const char each : bits_) count += std::popcount(static_cast<uint8_t>(each));
  return count;
}

}  // namespace ashlar::symm
