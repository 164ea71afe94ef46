// SPDX-License-Identifier: Apache-2.0
//
// System calls for waiting: futexes, which work across processes, yielding, and CPU affinity.
#include "symm/signals/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace ashlar::symm {

namespace {

// A yield takes about a microsecond if ranks take turns on a core, but a whole time slice if
// another program occupies the core. After such a slow yield, the next kWaitsWithoutYield waits of
// the thread sleep instead.
constexpr std::chrono::microseconds kSlowYieldTime(200);
constexpr int kWaitsWithoutYield = 200;

thread_local int waits_without_yield = 0;

}  // namespace

bool SharedWords::yield() {
  if (waits_without_yield > 0) {
    --waits_without_yield;
    return false;
  }
  const Deadline::Clock::time_point begin = Deadline::Clock::now();
  ::sched_yield();
  if (Deadline::Clock::now() - begin < kSlowYieldTime) return true;
  waits_without_yield = kWaitsWithoutYield;
  return false;
}

void SharedWords::sleep(const uint32_t* word, uint32_t seen, std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  const timespec limit{.tv_sec = static_cast<time_t>(seconds.count()),
                       .tv_nsec = static_cast<long>((at_most - seconds).count())};
  // The result is ignored, because the caller checks the word and its deadline again.
  ::syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void SharedWords::wake_all(const uint32_t* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

SpinPolicy SpinPolicy::of(int world_size, int core_count) {
  // The spins and the yields each take 20 to 40 us in total: longer than a futex wake-up, shorter
  // than a time slice.
  if (world_size <= core_count) return {.spin_count = 600, .yield_count = 40};
  return {.spin_count = 0, .yield_count = 40};
}

SpinPolicy SpinPolicy::of(int world_size) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return of(world_size, 1);
  return of(world_size, CPU_COUNT(&cores));
}

}  // namespace ashlar::symm
