// SPDX-License-Identifier: Apache-2.0
//
// Segments that have left an engine and are to be freed by their sources. A source is user code, so
// it is called without the engine's lock. Until the call returns, the memory is unavailable;
// therefore an allocation that runs out of device memory waits for flushes in progress. Thread
// safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <thread>

#include "ashlar/device.h"
#include "ashlar/pool.h"
#include "base/mutex.h"

namespace ashlar {

class ReturnQueue {
 public:
  // Allocates the memory that one later call of `add` needs, so that the call cannot fail.
  void reserve();
  // Drops one reservation that is not needed after all.
  void cancel_reservation() noexcept;
  // Queues a segment of `source` to be freed. An empty range queues only the release of the
  // reference to `source`, for when the pool that used the source has been destroyed. Uses a
  // reservation if there is one. Throws std::bad_alloc only if there is none.
  void add(std::shared_ptr<SegmentSource> source, AddressRange range = {});
  // Lock-free, because most engine operations end with this check.
  bool empty() const { return is_empty_.load(std::memory_order_acquire); }
  // Frees all queued segments without breaking captures on `device`. Call it with no lock held:
  // sources may do anything, including calling the engine.
  void flush(Device& device) noexcept;
  // Waits until other threads have flushed. The wait is limited to one second, because a source may
  // be blocked on a lock that the caller holds. Returns immediately on a thread that is flushing.
  void wait_for_other_threads();
  // Whether `wait_for_other_threads` would wait.
  bool is_flushed_by_another_thread() const;

 private:
  struct Entry {
    std::shared_ptr<SegmentSource> source;  // shared with its pool, which may be destroyed first
    AddressRange range;
  };
  // A thread that is flushing. The object is on that thread's stack.
  struct Flusher {
    std::thread::id thread;
    Flusher* next = nullptr;
  };
  bool must_wait() const ASHLAR_REQUIRES(mutex_);
  void remove_flusher(const Flusher& flusher) ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::condition_variable flushed_;
  std::list<Entry> entries_ ASHLAR_GUARDED_BY(mutex_);
  std::list<Entry> reserved_ ASHLAR_GUARDED_BY(mutex_);  // nodes for later entries
  std::atomic<bool> is_empty_ = true;
  Flusher* flushers_ ASHLAR_GUARDED_BY(mutex_) = nullptr;  // linked by `next`
};

}  // namespace ashlar
