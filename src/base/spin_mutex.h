// SPDX-License-Identifier: Apache-2.0
//
// A lock for critical sections of a few dozen instructions: one exchange to lock, one store to
// unlock. A contended lock spins briefly and then yields, because the owner may need the same core.
#pragma once

#include <atomic>
#include <thread>

#include "base/mutex.h"

namespace ashlar {

class ASHLAR_CAPABILITY("mutex") SpinMutex {
 public:
  void lock() ASHLAR_ACQUIRE() {
    if (!is_locked_.exchange(true, std::memory_order_acquire)) return;
    lock_contended();
  }
  void unlock() ASHLAR_RELEASE() { is_locked_.store(false, std::memory_order_release); }

 private:
  void lock_contended() {
    constexpr int kSpins = 64;
    do {
      for (int i = 0; i < kSpins && is_locked_.load(std::memory_order_relaxed); ++i) pause();
      if (is_locked_.load(std::memory_order_relaxed)) std::this_thread::yield();
    } while (is_locked_.exchange(true, std::memory_order_acquire));
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<bool> is_locked_{false};
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
