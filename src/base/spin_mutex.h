// SPDX-License-Identifier: Apache-2.0
//
// A lock for a few dozen instructions, such as an arena's: one exchange to take it, one store to
// let go. Whoever finds it taken spins for a moment and then gives its turn away, since the holder
// may be waiting for the very same core.
#pragma once

#include <atomic>
#include <thread>

#include "base/mutex.h"

namespace ashlar {

class ASHLAR_CAPABILITY("mutex") SpinMutex {
 public:
  void lock() ASHLAR_ACQUIRE() {
    if (!is_taken_.exchange(true, std::memory_order_acquire)) return;
    lock_contended();
  }
  void unlock() ASHLAR_RELEASE() { is_taken_.store(false, std::memory_order_release); }

 private:
  void lock_contended() {
    constexpr int kSpins = 64;
    do {
      for (int i = 0; i < kSpins && is_taken_.load(std::memory_order_relaxed); ++i) pause();
      if (is_taken_.load(std::memory_order_relaxed)) std::this_thread::yield();
    } while (is_taken_.exchange(true, std::memory_order_acquire));
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<bool> is_taken_{false};
};

class ASHLAR_SCOPED_CAPABILITY SpinLock {
 public:
  explicit SpinLock(SpinMutex& mutex) ASHLAR_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~SpinLock() ASHLAR_RELEASE() { mutex_.unlock(); }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

 private:
  SpinMutex& mutex_;
};

}  // namespace ashlar
