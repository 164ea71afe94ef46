// SPDX-License-Identifier: Apache-2.0
//
// Keeps the stream work of one group in the order of the calls across streams, since the operations
// of a group share the words of its pads. Orders only work submitted here, not whole streams.
//
// Work that a stream captures is ordered with the other work of the same capture only: a capture
// cannot wait for work outside of it. The caller orders launches of the graph. Thread safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::symm {

class StreamOrder {
 public:
  // The stream that work is submitted to, and its capture, if it is capturing.
  struct Target {
    StreamId stream;
    std::optional<CaptureId> capture{};
  };

  // Makes the graph that a stream is capturing an owner of an object. The device destroys the
  // object in a thread that may call the device. Retaining an object twice has no effect.
  using RetainInGraph = std::function<Status(StreamId stream, std::shared_ptr<const void> object)>;

  // `device` must outlive this object. Without `retain_in_graph`, work cannot be captured.
  StreamOrder(Device& device, RetainInGraph retain_in_graph)
      : device_(device), retain_in_graph_(std::move(retain_in_graph)) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // Returns the stream with its capture. kInvalidArgument: the capture was invalidated.
  Result<Target> find_capture(StreamId stream);
  // Makes the graph of the target's capture an owner of `object`. REQUIRES: the target has a
  // capture.
  Status retain(const Target& target, std::shared_ptr<const void> object) ASHLAR_EXCLUDES(mutex_);

  // Calls `launch`, which submits work to the target's stream. In a capture, the work is ordered
  // after all work that earlier calls enqueued in the same capture. Otherwise, it is ordered after
  // all work that earlier calls enqueued outside of captures. REQUIRES: if the target has a
  // capture, `retain` was called for it.
  Status enqueue(const Target& target, const std::function<Status()>& launch)
      ASHLAR_EXCLUDES(mutex_);

 private:
  // Marks the last work of a capture, or of all streams outside of captures.
  struct LastWork {
    std::optional<EventId> event;
    bool is_recorded = false;
  };
  struct Capture {
    std::weak_ptr<const void> graph_marker;  // an object that only the graph owns
    LastWork last_work;
  };

  Status enqueue_locked(LastWork& last_work, StreamId stream, const std::function<Status()>& launch)
      ASHLAR_REQUIRES(mutex_);
  void destroy_event(const LastWork& last_work);
  void forget_destroyed_graphs_locked() ASHLAR_REQUIRES(mutex_);

  Device& device_;
  const RetainInGraph retain_in_graph_;

  Mutex mutex_;
  LastWork last_work_ ASHLAR_GUARDED_BY(mutex_);
  std::map<CaptureId, Capture> captures_ ASHLAR_GUARDED_BY(mutex_);
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

}  // namespace ashlar::symm
