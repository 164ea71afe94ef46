// SPDX-License-Identifier: Apache-2.0
//
// Whether a group still works. Everyone who waits looks here now and then, so that one rank's death
// ends every wait of its group, whatever it was for.
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
  // The first report is kept: what failed later failed because of it.
  void report(Status reason) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (has_happened()) return;
    reason_ = std::move(reason);
    has_happened_.store(true, std::memory_order_release);
    for (uint32_t* each : words_) tell(each);
  }

  bool has_happened() const { return has_happened_.load(std::memory_order_acquire); }
  // Ok while nothing has.
  Status reason() const ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return reason_;
  }

  // For those who cannot look here, such as kernels of a device: the word becomes 1 when it
  // happens, or has. It stays where it is until it is unwatched.
  void add_flag(uint32_t* word) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    words_.push_back(word);
    if (has_happened()) tell(word);
  }
  void unwatch(uint32_t* word) ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::erase(words_, word);
  }

 private:
  // Nothing is read because of it but the word itself.
  static void tell(uint32_t* word) {
    std::atomic_ref<uint32_t>(*word).store(1, std::memory_order_relaxed);
  }

  std::atomic<bool> has_happened_{false};
  mutable Mutex mutex_;
  Status reason_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<uint32_t*> words_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::symm
