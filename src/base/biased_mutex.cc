// SPDX-License-Identifier: Apache-2.0
//
// Gives each thread a record on first use, reuses the records of threads that have ended, and wraps
// membarrier(2).
#include "base/biased_mutex.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "base/check.h"
#include "base/fork_guard.h"
#include "base/host_memory.h"

namespace ashlar {
namespace {

Mutex unused_mutex;
ThreadRecord* unused_records ASHLAR_GUARDED_BY(unused_mutex) = nullptr;  // a linked list

// In a forked child, the mutex may be locked by a thread of the parent, and the list may be
// inconsistent. The child starts with an empty list.
void reset_unused_records() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  std::construct_at(&unused_mutex);
  unused_records = nullptr;
}

// Returns the record to the unused list when the thread ends.
struct RecordReturner {
  ThreadRecord** record = nullptr;
  ~RecordReturner() {
    if (record == nullptr || *record == nullptr) return;
    (*record)->thread_id.store(0, std::memory_order_relaxed);
    MutexLock lock(unused_mutex);
    (*record)->next = unused_records;
    unused_records = std::exchange(*record, nullptr);
  }
};

long membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

constinit thread_local ThreadRecord* ThreadRecord::own_record = nullptr;

ThreadRecord* ThreadRecord::acquire() {
  static const bool resets_after_fork = [] {
    run_in_forked_children(reset_unused_records);
    return true;
  }();
  static_cast<void>(resets_after_fork);
  thread_local RecordReturner returner;
  returner.record = &own_record;
  {
    MutexLock lock(unused_mutex);
    own_record = unused_records;
    if (own_record != nullptr) unused_records = own_record->next;
  }
  // Freeing memory takes locks, so exhausted host memory must not make locking fail. Records are
  // never freed.
  if (own_record == nullptr) {
    own_record = catch_bad_alloc([] { return std::make_unique<ThreadRecord>(); }).release();
  }
  if (own_record == nullptr) return nullptr;
  own_record->thread_id.store(thread_id_fast(), std::memory_order_relaxed);
  return own_record;
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
