// SPDX-License-Identifier: Apache-2.0
//
// Three tables.
#include "device/gpu/graphs.h"

#include "base/text.h"

namespace ashlar::gpu {

void Graphs::note(StreamId stream, const CaptureFacts& facts) {
  const GraphId graph(facts.graph);
  const bool is_capturing = facts.status != CaptureStatus::kNone;
  MutexLock lock(mutex_);
  if (!is_capturing && captures_.empty()) return;
  const auto before = captures_.find(stream);
  if (before != captures_.end() && (!is_capturing || before->second != graph)) {
    const GraphId former = before->second;
    captures_.erase(before);
    if (!graphs_.contains(former)) forget_nodes(former);
  }
  if (!is_capturing) return;
  captures_[stream] = graph;
  for (const NodeId node : facts.tail) nodes_[node] = graph;
}

void Graphs::note_more(NodeId like, const std::vector<NodeId>& nodes) {
  MutexLock lock(mutex_);
  const auto known = nodes_.find(like);
  if (known == nodes_.end()) return;
  const GraphId graph = known->second;
  for (const NodeId node : nodes) nodes_[node] = graph;
}

Status Graphs::check(NodeId node) const {
  MutexLock lock(mutex_);
  if (nodes_.contains(node)) return {};
  return Status::invalid_argument(
      text("node ", node, " is not a node of a graph that still exists"));
}

void Graphs::add(GraphId graph) {
  MutexLock lock(mutex_);
  graphs_.insert_or_assign(graph, std::make_shared<CapturedGraph>());
}

Result<std::shared_ptr<CapturedGraph>> Graphs::find(GraphId graph) const {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) {
    return Status::invalid_argument(
        text("graph ", graph, " is not a captured graph of this device"));
  }
  return found->second;
}

Result<std::shared_ptr<CapturedGraph>> Graphs::remove(GraphId graph) {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) {
    return Status::invalid_argument(
        text("graph ", graph, " is not a captured graph of this device"));
  }
  std::shared_ptr<CapturedGraph> removed = std::move(found->second);
  graphs_.erase(found);
  forget_nodes(graph);
  return removed;
}

void Graphs::forget(GraphId graph) {
  MutexLock lock(mutex_);
  forget_nodes(graph);
}

std::vector<GraphId> Graphs::all() const {
  MutexLock lock(mutex_);
  std::vector<GraphId> ids;
  for (const auto& [id, graph] : graphs_) ids.push_back(id);
  return ids;
}

void Graphs::forget_nodes(GraphId graph) {
  std::erase_if(nodes_, [&](const auto& node) { return node.second == graph; });
  std::erase_if(captures_, [&](const auto& capture) { return capture.second == graph; });
}

}  // namespace ashlar::gpu
