// SPDX-License-Identifier: Apache-2.0
//
// Stores the graphs and their nodes. Removing a graph also removes its nodes.
#include "device/gpu/graph_registry.h"

#include "base/text.h"

namespace ashlar::gpu {

void GraphRegistry::update_capture(StreamId stream, const CaptureInfo& info) {
  const GraphId graph(info.graph);
  const bool is_capturing = info.status != CaptureStatus::kNone;
  MutexLock lock(mutex_);
  if (!is_capturing && captures_.empty()) return;
  const auto known = captures_.find(stream);
  if (known != captures_.end() && (!is_capturing || known->second != graph)) {
    const GraphId previous = known->second;
    captures_.erase(known);
    if (!graphs_.contains(previous)) {
      remove_nodes_locked(previous);
      graphs_.emplace(previous, std::make_shared<CapturedGraph>());
    }
  }
  if (!is_capturing) return;
  graphs_.erase(graph);  // the handle of a graph that the program has destroyed was reused
  captures_[stream] = graph;
  for (const NodeId node : info.tail) nodes_[node] = graph;
}

std::optional<StreamId> GraphRegistry::capturing_stream(GraphId graph) const {
  MutexLock lock(mutex_);
  if (graphs_.contains(graph)) return std::nullopt;
  for (const auto& [stream, captured] : captures_) {
    if (captured == graph) return stream;
  }
  return std::nullopt;
}

void GraphRegistry::add_nodes(NodeId sibling, const std::vector<NodeId>& nodes) {
  MutexLock lock(mutex_);
  const auto known = nodes_.find(sibling);
  if (known == nodes_.end()) return;
  const GraphId graph = known->second;
  for (const NodeId node : nodes) nodes_[node] = graph;
}

Status GraphRegistry::check_node(NodeId node) const {
  MutexLock lock(mutex_);
  if (nodes_.contains(node)) return {};
  return Status::invalid_argument(
      text("node ", node, " is not a node of a graph that still exists"));
}

void GraphRegistry::add(GraphId graph) {
  MutexLock lock(mutex_);
  graphs_.insert_or_assign(graph, std::make_shared<CapturedGraph>());
}

Result<std::shared_ptr<CapturedGraph>> GraphRegistry::find(GraphId graph) const {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) {
    return Status::invalid_argument(
        text("graph ", graph, " is not a captured graph of this device"));
  }
  return found->second;
}

Result<GraphRegistry::Removed> GraphRegistry::remove(GraphId graph) {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) {
    return Status::invalid_argument(
        text("graph ", graph, " is not a captured graph of this device"));
  }
  Nodes nodes;  // allocated before the first change
  for (const auto& node : nodes_) {
    if (node.second == graph) nodes.insert(node);
  }
  remove_nodes_locked(graph);
  return Removed(graphs_.extract(found), std::move(nodes));
}

void GraphRegistry::restore(Removed removed) {
  MutexLock lock(mutex_);
  graphs_.insert(std::move(removed.graph_));
  nodes_.merge(removed.nodes_);
}

void GraphRegistry::remove_nodes(GraphId graph) {
  MutexLock lock(mutex_);
  graphs_.erase(graph);
  remove_nodes_locked(graph);
}

void GraphRegistry::remove_nodes_locked(GraphId graph) {
  std::erase_if(nodes_, [&](const auto& node) { return node.second == graph; });
  std::erase_if(captures_, [&](const auto& capture) { return capture.second == graph; });
}

}  // namespace ashlar::gpu
