// SPDX-License-Identifier: Apache-2.0
//
// Maps the streams of a recording to streams of the replay's device. Not thread safe.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "analysis/allocations.h"
#include "ashlar/device.h"
#include "ashlar/status.h"
#include "ashlar/trace.h"

namespace ashlar {

class ReplayStreams {
 public:
  // REQUIRES: `device` outlives this object.
  explicit ReplayStreams(Device& device) : device_(device) {}

  // Creates a stream for each recorded stream, in the order of the recorded handles, because
  // engines free segments in the order of streams. Fails if the device does.
  Status create_all(const std::vector<TraceEntry>& trace, const Allocations& allocations) {
    std::vector<StreamId> handles;
    const auto add = [&](StreamId stream) {
      if (handles.empty() || handles.back() != stream) handles.push_back(stream);
    };
    for (const TraceEntry& entry : trace) add(entry.stream);
    for (const Allocation& allocation : allocations.all) add(allocation.stream);
    std::sort(handles.begin(), handles.end());
    for (const StreamId handle : handles) {
      if (const Result<StreamId> made = replayed(handle); !made.ok()) return made.status();
    }
    return {};
  }

  // Returns the replay's stream for a recorded stream, and creates it on first use. Fails if the
  // device does.
  Result<StreamId> replayed(StreamId recorded) {
    if (const auto found = replayed_by_recorded_.find(recorded);
        found != replayed_by_recorded_.end()) {
      return found->second;
    }
    Result<StreamId> stream = kDefaultStream;
    if (recorded != kDefaultStream) stream = device_.create_stream();
    if (!stream.ok()) return stream;
    replayed_by_recorded_[recorded] = *stream;
    recorded_by_replayed_[*stream] = recorded;
    return stream;
  }
  StreamId recorded(StreamId replayed) const {
    const auto found = recorded_by_replayed_.find(replayed);
    return found == recorded_by_replayed_.end() ? StreamId() : found->second;
  }

 private:
  Device& device_;
  std::unordered_map<StreamId, StreamId> replayed_by_recorded_;
  std::unordered_map<StreamId, StreamId> recorded_by_replayed_;
};

}  // namespace ashlar
