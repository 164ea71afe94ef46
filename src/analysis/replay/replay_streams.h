// SPDX-License-Identifier: Apache-2.0
//
// Maps the streams of a recording to streams of the replay's device. Not thread safe.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "analysis/allocations.h"
#include "ashlar/device.h"
#include "ashlar/trace.h"

namespace ashlar {

class ReplayStreams {
 public:
  // Creates a stream for each recorded stream, in the order of the recorded handles, because
  // engines free segments in the order of streams.
  // REQUIRES: `device` outlives this object.
  ReplayStreams(Device& device, const std::vector<TraceEntry>& trace,
                const Allocations& allocations)
      : device_(device) {
    std::vector<StreamId> handles;
    const auto add = [&](StreamId stream) {
      if (handles.empty() || handles.back() != stream) handles.push_back(stream);
    };
    for (const TraceEntry& entry : trace) add(entry.stream);
    for (const Allocation& allocation : allocations.all) add(allocation.stream);
    std::sort(handles.begin(), handles.end());
    for (const StreamId handle : handles) replayed(handle);
  }

  // Returns the replay's stream for a recorded stream, and creates it on first use.
  StreamId replayed(StreamId recorded) {
    const auto [place, is_new] = replayed_by_recorded_.try_emplace(recorded, kDefaultStream);
    if (is_new && recorded != kDefaultStream) place->second = *device_.create_stream();
    if (is_new) recorded_by_replayed_[place->second] = recorded;
    return place->second;
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
