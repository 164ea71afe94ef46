// SPDX-License-Identifier: Apache-2.0
//
// The order of things on a seeded machine: no threads; tasks run inside device calls, one at a
// time, and which stream goes next follows from the seed. The same calls from one thread therefore
// give the same interleaving. Thread safe, though calls from several threads bring an order of
// their own.
#pragma once

#include <condition_variable>
#include <memory>
#include <vector>

#include "ashlar/status.h"
#include "base/mutex.h"
#include "base/random.h"
#include "device/sim/completion.h"

namespace ashlar::sim {

class Stream;

class Scheduler {
 public:
  explicit Scheduler(uint64_t seed) : random_(seed) {}

  // Streams take their turns in the order they were added, so that the order does not depend on
  // where they happen to lie in memory.
  void add(const std::shared_ptr<Stream>& stream);

  // Runs one task of a stream drawn from those that could go on. False if there is none.
  bool step();
  // Lets the devices advance by as much as they please: nothing, or a few tasks.
  void drift();
  // Runs tasks until `awaited` is done. kDeviceFault: nothing can run and it never will be.
  Status run_until(const Completion& awaited);

 private:
  std::shared_ptr<Stream> draw_locked() ASHLAR_REQUIRES(mutex_);
  bool resume_held_until_waited() ASHLAR_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable finished_;
  Random random_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Stream>> streams_ ASHLAR_GUARDED_BY(mutex_);
  size_t running_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
