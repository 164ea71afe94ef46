// SPDX-License-Identifier: Apache-2.0
//
// Runs the work of a seeded machine without threads: tasks run inside device calls and
// Machine::step, and the seed determines which stream runs next. The same calls from one thread
// give the same interleaving. Thread safe, but calls from several threads are not reproducible.
#pragma once

#include <condition_variable>
#include <memory>
#include <vector>

#include "ashlar/status.h"
#include "base/mutex.h"
#include "base/random.h"
#include "device/sim/sim_stream.h"

namespace ashlar::sim {

class SimStream;

class Scheduler {
 public:
  explicit Scheduler(uint64_t seed) : random_(seed) {}

  // Adds a stream. The schedule depends on the order in which streams are added, not on their
  // addresses, so that it is reproducible.
  void add(const std::shared_ptr<SimStream>& stream);

  // Runs one task of a randomly chosen ready stream. Returns false if no stream is ready.
  bool step();
  // Runs up to 2 tasks; the number is random.
  void run_random_tasks();
  // Runs tasks until `awaited` is done. If no task can run, resumes the streams that were paused by
  // pause_until_waited. kDeviceFault: still no task can run, so `awaited` would never be done.
  Status run_until(const Completion& awaited);

 private:
  std::shared_ptr<SimStream> pick_stream_locked() ASHLAR_REQUIRES(mutex_);
  bool resume_streams_paused_until_waited() ASHLAR_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable finished_;
  Random random_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<SimStream>> streams_ ASHLAR_GUARDED_BY(mutex_);
  size_t running_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
