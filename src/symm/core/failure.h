// SPDX-License-Identifier: Apache-2.0
//
// The failure state of a group. Code that waits for other ranks polls this state or a registered
// flag, so that the wait ends early if the group fails. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/status.h"
#include "base/mutex.h"

namespace ashlar::symm {

class Failure {
 public:
  // Reports that the group has failed. Keeps only the first reason, because later failures are
  // usually consequences of the first.
  void report(Status reason) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (has_happened()) return;
    reason_ = std::move(reason);
    has_happened_.store(true, std::memory_order_release);
    for (uint32_t* flag : flags_) set_flag(flag);
  }

  bool has_happened() const { return has_happened_.load(std::memory_order_acquire); }
  // Returns why the group has failed, or ok if it has not.
  Status reason() const ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return reason_;
  }

  // Registers a flag for code that cannot call `has_happened`, such as device kernels. Stores 1 to
  // `*word` when the group fails, or immediately if it has failed already. REQUIRES: `word` stays
  // valid until `remove_flag`.
  void add_flag(uint32_t* word) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    flags_.push_back(word);
    if (has_happened()) set_flag(word);
  }
  void remove_flag(uint32_t* word) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::erase(flags_, word);
  }

 private:
  // Relaxed: no other data is published with the flag.
  static void set_flag(uint32_t* word) {
    std::atomic_ref<uint32_t>(*word).store(1, std::memory_order_relaxed);
  }

  std::atomic<bool> has_happened_{false};
  mutable Mutex mutex_;
  Status reason_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<uint32_t*> flags_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
