// SPDX-License-Identifier: Apache-2.0
//
// The graphs captured on one device and the nodes it has reported. Both are checked here first,
// because drivers may crash on an invalid handle. Ids are the driver's handles, so that programs
// can pass graphs and nodes that they captured themselves. Thread safe.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ashlar/types.h"
#include "base/mutex.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

// A finished graph. Instantiated at the first launch.
struct CapturedGraph {
  Mutex mutex;
  Handle exec ASHLAR_GUARDED_BY(mutex) = 0;
};

class GraphRegistry {
 public:
  // Updates the state of the stream's capture. A capture that the program ends by itself is not
  // reported here. Therefore the nodes of the stream's previous capture are removed if the stream
  // is now in another capture or in none.
  void note(StreamId stream, const CaptureInfo& info);
  // Adds nodes that belong to the same graph as `like`.
  void add_nodes(NodeId like, const std::vector<NodeId>& nodes);
  // kInvalidArgument: not a known node of an existing graph.
  Status check(NodeId node) const;

  void add(GraphId graph);
  // kInvalidArgument: not a finished graph of this device.
  Result<std::shared_ptr<CapturedGraph>> find(GraphId graph) const;
  // Removes and returns the graph, with its nodes. Fails like find.
  Result<std::shared_ptr<CapturedGraph>> remove(GraphId graph);
  // Removes the nodes of a capture that ended without a graph.
  void forget(GraphId graph);
  std::vector<GraphId> all() const;

 private:
  void forget_nodes(GraphId graph) ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  // Shared with concurrent launches of a graph that is being destroyed.
  std::unordered_map<GraphId, std::shared_ptr<CapturedGraph>> graphs_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<NodeId, GraphId> nodes_ ASHLAR_GUARDED_BY(mutex_);
  // The graph of the last known capture of each stream.
  std::unordered_map<StreamId, GraphId> captures_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::gpu
