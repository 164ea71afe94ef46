// SPDX-License-Identifier: Apache-2.0
//
// Captures in progress and the graphs that came out of them. A graph's nodes are kept in the order
// they were captured, which is one of the orders their dependencies allow; a launch runs them so.
// Thread safe. docs/design/sim_device.md lists what is refused during a capture.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "device/sim/events.h"
#include "device/sim/stream.h"

namespace ashlar::sim {

struct GraphNode {
  NodeId id;
  std::vector<NodeId> after;  // what must finish before it starts
  std::function<void()> run;
  int64_t modelled_ns = 0;
};

struct Graph {
  GraphId id;
  DeviceIndex device;
  std::vector<GraphNode> nodes;
};

class Captures {
 public:
  Status begin(const Stream& stream, CaptureMode mode);
  Result<GraphId> end(const Stream& stream);
  CaptureState state(const Stream& stream) const;
  bool capturing(const Stream& stream) const;

  // Notes work instead of running it. REQUIRES: capturing(stream).
  Status add(const Stream& stream, std::function<void()> run, int64_t modelled_ns);
  // What an event recorded now would mean. REQUIRES: capturing(stream).
  Result<CapturedMark> mark(const Stream& stream) const;
  // The stream goes on after the marked nodes, and joins their capture if it was in none.
  Status join(const Stream& stream, const CapturedMark& mark);
  // The stream is capturing and was to wait for work outside of the capture.
  Status refuse_outside_work(const Stream& stream);

  // kInvalidArgument, and the capture is invalidated, if the call would disturb one.
  Status allow_query(const Stream& stream, std::string_view call);
  Status allow_query(const Event& event, std::string_view call);
  Status allow_unsafe(std::string_view call);

  Result<std::shared_ptr<const Graph>> find_graph(DeviceIndex device, GraphId id) const;
  Status destroy_graph(DeviceIndex device, GraphId id);
  Result<std::vector<NodeId>> dependencies(DeviceIndex device, NodeId node) const;

  // The device is lost, and its captures with it.
  void drop(DeviceIndex device);

  static CaptureMode exchange_thread_mode(CaptureMode mode);

 private:
  struct Capture {
    CaptureId id;
    CaptureMode mode = CaptureMode::kGlobal;
    std::thread::id thread;
    const Stream* origin = nullptr;
    std::shared_ptr<Graph> graph;
    std::map<const Stream*, std::vector<NodeId>> tails;  // of every stream that takes part
    bool invalidated = false;
  };
  using CaptureList = std::map<CaptureId, Capture>;

  Capture* of_locked(const Stream& stream) ASHLAR_REQUIRES(mutex_);
  const Capture* of_locked(const Stream& stream) const ASHLAR_REQUIRES(mutex_);
  static Status check_ended_well(const Capture& capture);

  // Most programs never capture; this lets them pass without the lock. Relaxed is enough: a thread
  // that must see a capture learned of it by other means than this counter.
  std::atomic<size_t> active_count_{0};

  mutable Mutex mutex_;
  CaptureList captures_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<GraphId, std::shared_ptr<const Graph>> graphs_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_capture_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_graph_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_node_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
