// SPDX-License-Identifier: Apache-2.0
//
// The graphs captured on one device, and the nodes that the driver has reported. GpuDevice looks up
// ids here before it calls the driver, which may crash on an invalid handle. Ids are the driver's
// handles, so that programs can also pass them to the driver's own functions. Thread safe.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ashlar/types.h"
#include "base/mutex.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

// A finished graph. `exec` is 0 until the first launch instantiates the graph.
struct CapturedGraph {
  Mutex mutex;
  Handle exec ASHLAR_GUARDED_BY(mutex) = 0;
};

class GraphRegistry {
 public:
  // Records `info`, which the driver returned for the stream. If the stream's previous capture has
  // ended and its graph was not added, the program ended the capture with the driver's own
  // functions: removes the nodes of that capture, because the program may destroy the graph
  // unnoticed, and adds the graph.
  void update_capture(StreamId stream, const CaptureInfo& info);
  // Returns the stream whose last known capture makes the graph; nullopt if there is none, or if
  // the graph is finished.
  std::optional<StreamId> capturing_stream(GraphId graph) const;
  // Adds nodes that belong to the same graph as `sibling`. Does nothing if `sibling` is unknown.
  void add_nodes(NodeId sibling, const std::vector<NodeId>& nodes);
  // Returns kInvalidArgument if `node` is not a known node of an existing graph.
  Status check_node(NodeId node) const;

  void add(GraphId graph);
  // Returns the graph. kInvalidArgument: `graph` is not a finished graph of this device.
  Result<std::shared_ptr<CapturedGraph>> find(GraphId graph) const;
  // A removed graph and its nodes.
  class Removed;
  // Removes the graph and its nodes, so that no other call can use them. Fails like `find`.
  Result<Removed> remove(GraphId graph);
  // Adds a removed graph and its nodes again.
  void restore(Removed removed);
  // Removes the nodes of a capture that ended without a graph, and the graph if update_capture has
  // added it.
  void remove_nodes(GraphId graph);

 private:
  using Graphs = std::unordered_map<GraphId, std::shared_ptr<CapturedGraph>>;
  using Nodes = std::unordered_map<NodeId, GraphId>;

  void remove_nodes_locked(GraphId graph) ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  // Shared with launches that are in progress while the graph is destroyed.
  Graphs graphs_ ASHLAR_GUARDED_BY(mutex_);
  Nodes nodes_ ASHLAR_GUARDED_BY(mutex_);
  // The graph of the last known capture of each stream.
  std::unordered_map<StreamId, GraphId> captures_ ASHLAR_GUARDED_BY(mutex_);
};

class GraphRegistry::Removed {
 public:
  CapturedGraph& graph() const { return *graph_.mapped(); }

 private:
  friend class GraphRegistry;
  Removed(Graphs::node_type graph, Nodes nodes)
      : graph_(std::move(graph)), nodes_(std::move(nodes)) {}

  Graphs::node_type graph_;  // not empty
  Nodes nodes_;
};

}  // namespace ashlar::gpu
