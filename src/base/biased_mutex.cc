// SPDX-License-Identifier: Apache-2.0
//
// Gives every thread a record, which is reused after the thread exits, and wraps membarrier(2).
#include "base/biased_mutex.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "base/check.h"

namespace ashlar {
namespace {

Mutex unused_mutex;
ThreadRecord* unused ASHLAR_GUARDED_BY(unused_mutex) = nullptr;

// Returns the record to the unused list when the thread ends.
struct RecordReturner {
  ThreadRecord** own = nullptr;
  ~RecordReturner() {
    if (own == nullptr) return;
    (*own)->thread_id.store(0, std::memory_order_relaxed);
    MutexLock lock(unused_mutex);
    (*own)->next = unused;
    unused = std::exchange(*own, nullptr);
  }
};

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

constinit thread_local ThreadRecord* ThreadRecord::own = nullptr;

ThreadRecord* ThreadRecord::acquire() {
  thread_local RecordReturner returner;
  returner.own = &own;
  {
    MutexLock lock(unused_mutex);
    own = unused;
    if (own != nullptr) unused = own->next;
  }
  if (own == nullptr) own = std::make_unique<ThreadRecord>().release();
  own->thread_id.store(thread_id_fast(), std::memory_order_relaxed);
  return own;
}

bool bias::is_supported() {
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

void bias::barrier_all_threads() {
  ASHLAR_CHECK(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
}

}  // namespace ashlar
