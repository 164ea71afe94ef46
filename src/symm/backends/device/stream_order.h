// SPDX-License-Identifier: Apache-2.0
//
// Keeps the stream work of one group in the order of the calls across streams, since the operations
// of a group share the words of its pads. Orders only work submitted here, not whole streams.
// Thread safe.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::symm {

class StreamOrder {
 public:
  // `device` must outlive this object.
  explicit StreamOrder(Device& device) : device_(device) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // Calls `launch`, which submits work to `stream`. The work runs after all work that was enqueued
  // here before.
  Status enqueue(StreamId stream, const std::function<Status()>& launch) ASHLAR_EXCLUDES(mutex_);

 private:
  Device& device_;

  Mutex mutex_;
  std::optional<EventId> event_ ASHLAR_GUARDED_BY(mutex_);  // recorded after the last work
  bool is_recorded_ ASHLAR_GUARDED_BY(mutex_) = false;
};

// Streams for blocking calls. Concurrent calls use different streams, so that none waits for the
// work of another.
class BlockingStreams {
 public:
  explicit BlockingStreams(Device& device) : device_(device) {}
  ~BlockingStreams();
  BlockingStreams(const BlockingStreams&) = delete;
  BlockingStreams& operator=(const BlockingStreams&) = delete;

  // Calls `launch` with an unused stream and synchronizes the stream.
  Status run(const std::function<Status(StreamId)>& launch) ASHLAR_EXCLUDES(mutex_);

 private:
  Result<StreamId> take_stream() ASHLAR_EXCLUDES(mutex_);

  Device& device_;

  Mutex mutex_;
  std::vector<StreamId> idle_ ASHLAR_GUARDED_BY(mutex_);
};

// Returns kUnsupported if the stream is capturing, because operations between ranks cannot be part
// of a graph.
Status check_not_capturing(Device& device, StreamId stream);

}  // namespace ashlar::symm
