// SPDX-License-Identifier: Apache-2.0
//
// Keeps what one group does in the streams of a device in the order of the calls, whichever streams
// they name: its ranks meet on the same words of their pads. Only what goes through here is
// ordered, not whole streams. Thread safe.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::symm {

class StreamOrder {
 public:
  // `device` outlives it.
  explicit StreamOrder(Device& device) : device_(device) {}
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // `launch()` puts work into the stream, behind all that was put anywhere before.
  Status in_order(StreamId stream, const std::function<Status()>& launch) ASHLAR_EXCLUDES(mutex_);

 private:
  Device& device_;

  Mutex mutex_;
  std::optional<EventId> event_ ASHLAR_GUARDED_BY(mutex_);  // recorded after the last
  bool is_recorded_ ASHLAR_GUARDED_BY(mutex_) = false;
};

// Streams for calls that wait: one for each that waits at a time, so that none is behind another.
class OwnStreams {
 public:
  explicit OwnStreams(Device& device) : device_(device) {}
  ~OwnStreams();
  OwnStreams(const OwnStreams&) = delete;
  OwnStreams& operator=(const OwnStreams&) = delete;

  // `act(stream)` in a stream that nobody else uses meanwhile; then waits for it.
  Status run(const std::function<Status(StreamId)>& act) ASHLAR_EXCLUDES(mutex_);

 private:
  Result<StreamId> take() ASHLAR_EXCLUDES(mutex_);

  Device& device_;

  Mutex mutex_;
  std::vector<StreamId> idle_ ASHLAR_GUARDED_BY(mutex_);
};

// kUnsupported: the stream is capturing. What ranks do together is done now, or it is not.
Status refuse_capture(Device& device, StreamId stream);

}  // namespace ashlar::symm
