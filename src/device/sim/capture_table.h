// SPDX-License-Identifier: Apache-2.0
//
// The captures in progress of a machine, and the captured graphs. The nodes of a graph are stored
// in the order of capture, which respects their dependencies; a launch runs them in this order.
// docs/internals/sim_device.md lists what is rejected during a capture. Thread safe.
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
#include "device/sim/event_table.h"
#include "device/sim/sim_stream.h"

namespace ashlar::sim {

struct GraphNode {
  NodeId id;
  std::vector<NodeId> after;  // its dependencies
  std::function<void()> run;
  int64_t modelled_ns = 0;
};

struct SimGraph {
  GraphId id;
  DeviceIndex device;
  std::vector<GraphNode> nodes;
};

class CaptureTable {
 public:
  Status begin(const SimStream& stream, CaptureMode mode);
  Result<GraphId> end(const SimStream& stream);
  CaptureState state(const SimStream& stream) const;
  bool is_capturing(const SimStream& stream) const;

  // Adds a node to the stream's graph. REQUIRES: is_capturing(stream).
  Status add(const SimStream& stream, std::function<void()> run, int64_t modelled_ns);
  // The nodes that an event recorded now represents. REQUIRES: is_capturing(stream).
  Result<CapturedEvent> mark(const SimStream& stream) const;
  // Makes the stream's next node depend on the event. The stream joins the event's capture if it
  // was not capturing.
  Status join(const SimStream& stream, const CapturedEvent& mark);
  // Invalidates the stream's capture because it would wait for work outside the capture.
  Status reject_outside_work(const SimStream& stream);

  // The checks return kInvalidArgument and invalidate the capture if the call is not allowed during
  // it. `call` is the name of the call, for the message.

  // Checks a query of a stream, or a wait for it.
  Status check_query(const SimStream& stream, std::string_view call);
  // Checks a query of an event, or a wait for it.
  Status check_query(const SimEvent& event, std::string_view call);
  // Checks a call that may synchronize.
  Status check_unsafe_call(std::string_view call);

  Result<std::shared_ptr<const SimGraph>> find_graph(DeviceIndex device, GraphId id) const;
  Status destroy_graph(DeviceIndex device, GraphId id);
  Result<std::vector<NodeId>> dependencies(DeviceIndex device, NodeId node) const;

  // Ends all captures of a lost device.
  void drop(DeviceIndex device);

  static CaptureMode exchange_thread_mode(CaptureMode mode);

 private:
  struct Capture {
    CaptureId id;
    CaptureMode mode = CaptureMode::kGlobal;
    std::thread::id thread;
    const SimStream* origin = nullptr;
    std::shared_ptr<SimGraph> graph;
    std::map<const SimStream*, std::vector<NodeId>> tails;  // of every participating stream
    bool invalidated = false;
  };
  using CaptureList = std::map<CaptureId, Capture>;

  Capture* find_locked(const SimStream& stream) ASHLAR_REQUIRES(mutex_);
  const Capture* find_locked(const SimStream& stream) const ASHLAR_REQUIRES(mutex_);
  static Status check_can_end(const Capture& capture);

  // Lets programs that never capture skip the lock. Relaxed is sufficient: a thread that must
  // observe a capture is synchronized with its start by other means.
  std::atomic<size_t> active_count_{0};

  mutable Mutex mutex_;
  CaptureList captures_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<GraphId, std::shared_ptr<const SimGraph>> graphs_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_capture_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_graph_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_node_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
