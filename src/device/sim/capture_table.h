// SPDX-License-Identifier: Apache-2.0
//
// The captures in progress of a machine, and the captured graphs. The nodes of a graph are stored
// in the order of capture, which respects their dependencies; a launch runs them in this order. The
// comment on captures in include/ashlar/device.h lists the calls that are rejected. Thread safe.
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
#include "device/graph_objects.h"
#include "device/sim/event_table.h"
#include "device/sim/sim_stream.h"

namespace ashlar::sim {

struct GraphNode {
  NodeId id;
  std::vector<NodeId> dependencies;
  std::function<void()> run;
  int64_t modelled_ns = 0;
};

struct SimGraph {
  GraphId id;
  DeviceIndex device;
  std::unique_ptr<GraphObjectReleaser::Ticket> ticket;  // null if the graph retains no objects
  std::vector<GraphNode> nodes;  // destroyed before the objects that their work uses
};

class CaptureTable {
 public:
  Status begin(const SimStream& stream, CaptureMode mode);
  Result<GraphId> end(const SimStream& stream);
  CaptureState state(const SimStream& stream) const;
  bool is_capturing(const SimStream& stream) const;

  // Adds a node to the stream's graph. REQUIRES: is_capturing(stream).
  Status add(const SimStream& stream, std::function<void()> run, int64_t modelled_ns);
  // Makes the graph of the stream's capture the owner of `ticket`. REQUIRES: the graph has no
  // ticket.
  Status retain(const SimStream& stream, std::unique_ptr<GraphObjectReleaser::Ticket> ticket);
  // Returns the nodes that an event would represent if it were recorded in the stream now.
  // REQUIRES: is_capturing(stream).
  Result<CapturedEvent> mark(const SimStream& stream) const;
  // Makes the stream's next node depend on the event. A stream that is not capturing joins the
  // event's capture.
  Status join(const SimStream& stream, const CapturedEvent& mark);
  // Invalidates the stream's capture and returns the error of a stream that would wait for work
  // outside its capture.
  Status reject_outside_work(const SimStream& stream);
  // Ends all captures of a lost device without creating graphs.
  void drop(DeviceIndex device);

  // --- checks: a call that is not allowed during a capture fails with kInvalidArgument and
  // invalidates the capture. `call` is the name of the device call, for the message.

  // Checks a query of a stream, or a wait for the stream.
  Status check_query(const SimStream& stream, std::string_view call);
  // Checks a query of an event, or a wait for the event.
  Status check_query(const SimEvent& event, std::string_view call);
  // Checks a call that may block, under the modes of all captures and of the calling thread.
  Status check_unsafe_call(std::string_view call);
  // Sets the calling thread's mode, and returns the previous mode.
  static CaptureMode exchange_thread_mode(CaptureMode mode);

  // --- graphs

  Result<std::shared_ptr<const SimGraph>> find_graph(DeviceIndex device, GraphId id) const;
  Status destroy_graph(DeviceIndex device, GraphId id);
  Result<std::vector<NodeId>> dependencies(DeviceIndex device, NodeId node) const;

 private:
  struct Capture {
    CaptureId id;
    CaptureMode mode = CaptureMode::kGlobal;
    std::thread::id thread;
    const SimStream* origin = nullptr;
    std::shared_ptr<SimGraph> graph;
    std::map<const SimStream*, std::vector<NodeId>> tails;  // last nodes of each capturing stream
    bool invalidated = false;
  };
  using CaptureList = std::map<CaptureId, Capture>;

  Capture* find_locked(const SimStream& stream) ASHLAR_REQUIRES(mutex_);
  const Capture* find_locked(const SimStream& stream) const ASHLAR_REQUIRES(mutex_);
  static Status check_can_end(const Capture& capture);

  // The number of captures in progress. Calls skip the lock while it is 0. Relaxed order suffices,
  // because a program that depends on a capture of another thread must synchronize with the
  // beginning of the capture anyway.
  std::atomic<size_t> active_count_{0};

  mutable Mutex mutex_;
  CaptureList captures_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<GraphId, std::shared_ptr<const SimGraph>> graphs_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t last_capture_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_graph_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_node_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar::sim
