// SPDX-License-Identifier: Apache-2.0
//
// Records of threads, and the barrier.
#include "base/biased_mutex.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "base/check.h"

namespace ashlar {
namespace {

Mutex spare_mutex;
ThreadRecord* spare ASHLAR_GUARDED_BY(spare_mutex) = nullptr;

// Gives the record to whoever comes next when the thread ends.
struct Returning {
  ThreadRecord** own = nullptr;
  ~Returning() {
    if (own == nullptr) return;
    (*own)->mark.store(0, std::memory_order_relaxed);
    MutexLock lock(spare_mutex);
    (*own)->next = spare;
    spare = std::exchange(*own, nullptr);
  }
};

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

constinit thread_local ThreadRecord* ThreadRecord::own = nullptr;

ThreadRecord* ThreadRecord::take_mine() {
  thread_local Returning returning;
  returning.own = &own;
  {
    MutexLock lock(spare_mutex);
    own = spare;
    if (own != nullptr) spare = own->next;
  }
  if (own == nullptr) own = std::make_unique<ThreadRecord>().release();
  own->mark.store(thread_mark(), std::memory_order_relaxed);
  return own;
}

bool bias::is_possible() {
#if defined(__SANITIZE_THREAD__)
  return false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return false;
#endif
#endif
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
                                 membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
  return registered;
}

void bias::make_stores_visible() {
  ASHLAR_CHECK(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
}

}  // namespace ashlar
