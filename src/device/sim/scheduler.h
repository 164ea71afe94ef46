// SPDX-License-Identifier: Apache-2.0
//
// Runs the work of a seeded machine without threads: tasks run inside device calls and
// Machine::step, and the seed determines which stream runs next. The same calls from one thread
// give the same interleaving. Thread safe, but calls from several threads are not reproducible.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
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

  // Adds a stream that is neither runnable nor paused, and returns its number. The schedule depends
  // on these numbers and not on the addresses of streams, so that it is reproducible. Allocates all
  // memory that the index needs for the stream.
  uint64_t add(SimStream& stream) ASHLAR_EXCLUDES(index_mutex_);
  void remove(const SimStream& stream) ASHLAR_EXCLUDES(index_mutex_);
  // A stream calls the next two functions with its own lock held. A stream is runnable if it has
  // work and is neither running nor paused. A step examines only runnable streams, so its cost does
  // not depend on the number of idle and paused streams.
  void set_runnable(SimStream& stream, bool is_runnable) ASHLAR_EXCLUDES(index_mutex_);
  void set_paused_until_waited(SimStream& stream, bool is_paused) ASHLAR_EXCLUDES(index_mutex_);

  // Runs one task of a randomly chosen ready stream. Returns false if no stream is ready.
  bool step();
  // Runs a random number of tasks, at most two.
  void run_random_tasks();
  // Runs tasks until `awaited` is done. If no task can run, resumes the streams that were paused by
  // pause_until_waited. kDeviceFault: even then no task can run, so `awaited` would never be done.
  Status run_until(const Completion& awaited);

  // The number of streams that calls have examined so far. For tests.
  uint64_t examined_count() const { return examined_count_.load(std::memory_order_relaxed); }

 private:
  // Divides all streams, keyed by number, into those that have a property (`members`) and `others`.
  // Streams move between the maps without allocation.
  struct StreamIndex {
    std::map<uint64_t, SimStream*> members;
    std::map<uint64_t, SimStream*> others;
  };

  static void update(StreamIndex& index, const SimStream& stream, bool is_member);
  std::vector<std::shared_ptr<SimStream>> streams_of(const StreamIndex& index)
      ASHLAR_REQUIRES(index_mutex_);
  std::shared_ptr<SimStream> pick_stream_locked() ASHLAR_REQUIRES(mutex_);
  bool resume_streams_paused_until_waited() ASHLAR_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable finished_;
  Random random_ ASHLAR_GUARDED_BY(mutex_);
  size_t running_count_ ASHLAR_GUARDED_BY(mutex_) = 0;

  // Taken after `mutex_` and after the lock of a stream.
  Mutex index_mutex_;
  StreamIndex runnable_ ASHLAR_GUARDED_BY(index_mutex_);
  StreamIndex paused_until_waited_ ASHLAR_GUARDED_BY(index_mutex_);
  uint64_t stream_count_ ASHLAR_GUARDED_BY(index_mutex_) = 0;
  std::atomic<uint64_t> examined_count_{0};
};

}  // namespace ashlar::sim
