// SPDX-License-Identifier: Apache-2.0
//
// The streams that a device created. A destroyed stream is not returned to the driver but kept for
// reuse. Drivers may crash on the handle of a destroyed stream. They also reuse handles: if a
// driver reused one for another library's new stream, Ashlar could not tell the two streams apart.
// Thread safe.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ashlar/types.h"
#include "base/mutex.h"

namespace ashlar::gpu {

class StreamRegistry {
 public:
  void add(StreamId stream, int priority);
  bool contains(StreamId stream) const;
  // Marks a stream as destroyed. Returns false if the stream is unknown or already retired.
  bool retire(StreamId stream);
  bool is_retired(StreamId stream) const;
  // Checks one retired stream of that priority. If the stream is idle, makes it live again and
  // returns it; otherwise, later calls check the other streams first. Does not hold the lock while
  // it calls `is_idle`.
  std::optional<StreamId> reuse_retired(int priority, const std::function<bool(StreamId)>& is_idle);
  std::vector<StreamId> retired() const;

 private:
  mutable Mutex mutex_;
  std::unordered_map<StreamId, int> priorities_ ASHLAR_GUARDED_BY(mutex_);  // only of live streams
  std::unordered_set<StreamId> retired_ ASHLAR_GUARDED_BY(mutex_);
  // The streams of `retired_` that no reuse_retired call is checking, in the order in which they
  // will be checked.
  std::map<int, std::deque<StreamId>> by_priority_ ASHLAR_GUARDED_BY(mutex_);
  // Whether a stream was ever retired. If not, is_retired skips the lock.
  std::atomic<bool> any_retired_{false};
};

}  // namespace ashlar::gpu
