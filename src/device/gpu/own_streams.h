// SPDX-License-Identifier: Apache-2.0
//
// The streams that a device made. One that is destroyed is not given back to the driver, but kept
// for whoever wants a stream next: a driver uses handles again, and somebody else's stream by an
// old handle could not be told from ours that is gone, which a driver may crash with. Thread safe.
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

class OwnStreams {
 public:
  void add(StreamId stream, int priority);
  bool contains(StreamId stream) const;
  // False: it is not there, or retired already.
  bool retire(StreamId stream);
  bool is_retired(StreamId stream) const;
  // One of that priority that was retired and has nothing left to do, so that it is as good as a
  // new one; it is there again. `is_idle` is called with no lock held.
  std::optional<StreamId> take_retired(int priority, const std::function<bool(StreamId)>& is_idle);
  // All that were retired and not taken again.
  std::vector<StreamId> retired() const;

 private:
  mutable Mutex mutex_;
  std::unordered_map<StreamId, int> priorities_ ASHLAR_GUARDED_BY(mutex_);  // of those in use
  std::unordered_set<StreamId> retired_ ASHLAR_GUARDED_BY(mutex_);
  // Those of `retired_` that nobody is about to take, oldest first.
  std::map<int, std::deque<StreamId>> by_priority_ ASHLAR_GUARDED_BY(mutex_);
  std::atomic<bool> any_retired_{false};  // ever; asked first, with every call
};

}  // namespace ashlar::gpu
