// SPDX-License-Identifier: Apache-2.0
//
// Replaces clock_gettime of the C library by a function that adds an offset.
#include "unit/symm/stores/wall_clock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace ashlar::symm {
namespace {

// Loaded with relaxed order: a stale value is like reading the clock slightly earlier.
std::atomic<int64_t> wall_clock_ahead_seconds{0};

}  // namespace

WallClockAhead::WallClockAhead(std::chrono::seconds by) { wall_clock_ahead_seconds = by.count(); }
WallClockAhead::~WallClockAhead() { wall_clock_ahead_seconds = 0; }

}  // namespace ashlar::symm

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto failed = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (failed == 0 && clock == CLOCK_REALTIME) {
    now->tv_sec += ashlar::symm::wall_clock_ahead_seconds.load(std::memory_order_relaxed);
  }
  return failed;
}
