// SPDX-License-Identifier: Apache-2.0
//
// The graphs that one device captured, and the nodes it has named: a driver handed a graph or a
// node that is gone may end the process, so both are looked up here first. Ids are the driver's own
// handles, since a program that captures by itself knows its graphs by these. Thread safe.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ashlar/types.h"
#include "base/mutex.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

// A graph whose capture has ended. Its launchable form is made at the first launch.
struct CapturedGraph {
  Mutex mutex;
  Handle launchable ASHLAR_GUARDED_BY(mutex) = 0;
};

class Graphs {
 public:
  // What a stream's capture looks like now. Of a program's own capture nobody tells the end, so
  // when a stream is in another one than before, or in none, what was noted of the former goes.
  void note(StreamId stream, const CaptureFacts& facts);
  // Nodes that belong to the same graph as `like`.
  void note_more(NodeId like, const std::vector<NodeId>& nodes);
  // kInvalidArgument: no node of a graph that still exists, as far as this device knows.
  Status check(NodeId node) const;

  void add(GraphId graph);
  // kInvalidArgument: no graph of this device whose capture has ended.
  Result<std::shared_ptr<CapturedGraph>> find(GraphId graph) const;
  // The same, and it is gone, with its nodes.
  Result<std::shared_ptr<CapturedGraph>> remove(GraphId graph);
  // Of a capture that came to nothing.
  void forget(GraphId graph);
  std::vector<GraphId> all() const;

 private:
  void forget_nodes(GraphId graph) ASHLAR_REQUIRES(mutex_);

  mutable Mutex mutex_;
  // Shared with launches that are being made while the graph is destroyed.
  std::unordered_map<GraphId, std::shared_ptr<CapturedGraph>> graphs_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<NodeId, GraphId> nodes_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_map<StreamId, GraphId> captures_
      ASHLAR_GUARDED_BY(mutex_);  // by stream, last seen
};

}  // namespace ashlar::gpu
