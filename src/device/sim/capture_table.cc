// SPDX-License-Identifier: Apache-2.0
//
// Records work as nodes of graphs, and applies the rules for calls during a capture.
#include "device/sim/capture_table.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace ashlar::sim {
namespace {

CaptureMode& mode_of_this_thread() {
  thread_local CaptureMode mode = CaptureMode::kGlobal;
  return mode;
}

Status invalidated_error(std::string_view call) {
  return Status::invalid_argument(
      text(call, " is not allowed during this capture; the capture is now invalid"));
}

void merge_into(std::vector<NodeId>& tail, const std::vector<NodeId>& nodes) {
  std::set<NodeId> merged(tail.begin(), tail.end());
  merged.insert(nodes.begin(), nodes.end());
  tail.assign(merged.begin(), merged.end());
}

// Finds a node by binary search: ids increase in the order of capture, so the nodes of a graph are
// sorted by id.
const GraphNode* find_node(const SimGraph& graph, NodeId id) {
  const auto found =
      std::lower_bound(graph.nodes.begin(), graph.nodes.end(), id,
                       [](const GraphNode& node, NodeId wanted) { return node.id < wanted; });
  return found != graph.nodes.end() && found->id == id ? &*found : nullptr;
}

std::set<NodeId> collect_with_ancestors(const SimGraph& graph, const std::vector<NodeId>& tail) {
  std::set<NodeId> reached;
  std::vector<NodeId> pending = tail;
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (!reached.insert(id).second) continue;
    const GraphNode* node = find_node(graph, id);
    pending.insert(pending.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return reached;
}

}  // namespace

// --- begin and end

Status CaptureTable::begin(const SimStream& stream, CaptureMode mode) {
  MutexLock lock(mutex_);
  if (find_locked(stream) != nullptr)
    return Status::invalid_argument("the stream is capturing already");
  Capture capture;
  capture.id = CaptureId(++last_capture_);
  capture.mode = mode;
  capture.thread = std::this_thread::get_id();
  capture.origin = &stream;
  capture.graph = std::make_shared<SimGraph>();
  capture.graph->id = GraphId(++last_graph_);
  capture.graph->device = stream.device();
  capture.tails[&stream] = {};
  captures_.emplace(capture.id, std::move(capture));
  active_count_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<GraphId> CaptureTable::end(const SimStream& stream) {
  Capture ended;  // destroyed after unlocking, because captured work is user code
  MutexLock lock(mutex_);
  Capture* found = find_locked(stream);
  if (found == nullptr) return Status::invalid_argument("the stream is not capturing");
  if (found->origin != &stream) {
    found->invalidated = true;
    return Status::invalid_argument(
        "the capture began in another stream and must be ended there; it is now "
        "invalid");
  }
  ended = std::move(*found);
  captures_.erase(ended.id);
  active_count_.fetch_sub(1, std::memory_order_relaxed);
  if (Status complete = check_can_end(ended); !complete.ok()) return complete;
  graphs_.emplace(ended.graph->id, ended.graph);
  return ended.graph->id;
}

Status CaptureTable::check_can_end(const Capture& capture) {
  if (capture.invalidated)
    return Status::invalid_argument("the capture was invalidated; no graph was created");
  const std::set<NodeId> joined =
      collect_with_ancestors(*capture.graph, capture.tails.at(capture.origin));
  for (const auto& [stream, tail] : capture.tails) {
    for (NodeId node : tail) {
      if (joined.contains(node)) continue;
      return Status::invalid_argument(
          "a stream that joined the capture was not joined back: record an event in "
          "it and make the origin stream wait for it; no graph was created");
    }
  }
  return {};
}

void CaptureTable::drop(DeviceIndex device) {
  std::vector<Capture> dropped;
  MutexLock lock(mutex_);
  for (auto it = captures_.begin(); it != captures_.end();) {
    if (it->second.graph->device != device) {
      ++it;
      continue;
    }
    dropped.push_back(std::move(it->second));
    it = captures_.erase(it);
    active_count_.fetch_sub(1, std::memory_order_relaxed);
  }
}

CaptureState CaptureTable::state(const SimStream& stream) const {
  if (active_count_.load(std::memory_order_relaxed) == 0) return {};
  MutexLock lock(mutex_);
  const Capture* capture = find_locked(stream);
  if (capture == nullptr) return {};
  const CaptureStatus status =
      capture->invalidated ? CaptureStatus::kInvalidated : CaptureStatus::kActive;
  return {status, capture->id, capture->graph->id, capture->tails.at(&stream)};
}

bool CaptureTable::is_capturing(const SimStream& stream) const {
  if (active_count_.load(std::memory_order_relaxed) == 0) return false;
  MutexLock lock(mutex_);
  return find_locked(stream) != nullptr;
}

// --- capturing work

Status CaptureTable::add(const SimStream& stream, std::function<void()> run, int64_t modelled_ns) {
  MutexLock lock(mutex_);
  Capture* capture = find_locked(stream);
  if (capture == nullptr) return Status::invalid_argument("the stream is not capturing any more");
  if (capture->invalidated)
    return Status::invalid_argument("the stream's capture was invalidated; end it");
  const NodeId id(++last_node_);
  std::vector<NodeId>& tail = capture->tails[&stream];
  capture->graph->nodes.push_back({id, tail, std::move(run), modelled_ns});
  tail = {id};
  return {};
}

Status CaptureTable::retain(const SimStream& stream,
                            std::unique_ptr<GraphObjectReleaser::Ticket> ticket) {
  MutexLock lock(mutex_);
  Capture* capture = find_locked(stream);
  if (capture == nullptr) return Status::invalid_argument("the stream is not capturing");
  if (capture->invalidated)
    return Status::invalid_argument("the stream's capture was invalidated; end it");
  capture->graph->ticket = std::move(ticket);
  return {};
}

Result<CapturedEvent> CaptureTable::mark(const SimStream& stream) const {
  MutexLock lock(mutex_);
  const Capture* capture = find_locked(stream);
  if (capture == nullptr) return Status::invalid_argument("the stream is not capturing any more");
  return CapturedEvent{capture->id, capture->tails.at(&stream)};
}

Status CaptureTable::join(const SimStream& stream, const CapturedEvent& mark) {
  MutexLock lock(mutex_);
  const auto found = captures_.find(mark.capture);
  Capture* current = find_locked(stream);
  if (found == captures_.end()) {
    if (current != nullptr) current->invalidated = true;
    return Status::invalid_argument("the event was recorded in a capture that has ended");
  }
  Capture& joined = found->second;
  if (current != nullptr && current != &joined) {
    current->invalidated = true;
    joined.invalidated = true;
    return Status::invalid_argument(
        "the stream and the event belong to different captures; both are invalid");
  }
  merge_into(joined.tails[&stream], mark.nodes);
  return {};
}

Status CaptureTable::reject_outside_work(const SimStream& stream) {
  MutexLock lock(mutex_);
  if (Capture* capture = find_locked(stream)) capture->invalidated = true;
  return invalidated_error("waiting for an event recorded outside of the capture");
}

// --- calls that are not allowed during a capture

Status CaptureTable::check_query(const SimStream& stream, std::string_view call) {
  if (active_count_.load(std::memory_order_relaxed) == 0) return {};
  MutexLock lock(mutex_);
  Capture* capture = find_locked(stream);
  if (capture == nullptr) return {};
  capture->invalidated = true;
  return invalidated_error(call);
}

Status CaptureTable::check_query(const SimEvent& event, std::string_view call) {
  if (event.captured == nullptr) return {};
  MutexLock lock(mutex_);
  const auto found = captures_.find(event.captured->capture);
  if (found != captures_.end()) found->second.invalidated = true;
  return Status::invalid_argument(
      text(call, ": the event was recorded in a capture and has no completion"));
}

Status CaptureTable::check_unsafe_call(std::string_view call) {
  const CaptureMode own_mode = mode_of_this_thread();
  if (active_count_.load(std::memory_order_relaxed) == 0) return {};
  if (own_mode == CaptureMode::kRelaxed) return {};
  MutexLock lock(mutex_);
  bool allowed = true;
  for (auto& [id, capture] : captures_) {
    const bool is_own = capture.thread == std::this_thread::get_id();
    const bool is_forbidden =
        (capture.mode == CaptureMode::kGlobal && (is_own || own_mode == CaptureMode::kGlobal)) ||
        (capture.mode == CaptureMode::kThreadLocal && is_own);
    if (!is_forbidden) continue;
    capture.invalidated = true;
    allowed = false;
  }
  return allowed ? Status() : invalidated_error(call);
}

CaptureMode CaptureTable::exchange_thread_mode(CaptureMode mode) {
  return std::exchange(mode_of_this_thread(), mode);
}

// --- graphs

Result<std::shared_ptr<const SimGraph>> CaptureTable::find_graph(DeviceIndex device,
                                                                 GraphId id) const {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(id);
  if (found == graphs_.end() || found->second->device != device) {
    return Status::invalid_argument(
        text("graph ", id, " is not a finished graph of device ", device));
  }
  return found->second;
}

Status CaptureTable::destroy_graph(DeviceIndex device, GraphId id) {
  Result<std::shared_ptr<const SimGraph>> graph = find_graph(device, id);
  if (!graph.ok()) return graph.status();
  MutexLock lock(mutex_);
  if (graphs_.erase(id) == 0)
    return Status::invalid_argument(text("graph ", id, " was destroyed already"));
  return {};
}

Result<std::vector<NodeId>> CaptureTable::dependencies(DeviceIndex device, NodeId node) const {
  MutexLock lock(mutex_);
  const auto find_in = [&](const SimGraph& graph) {
    return graph.device == device ? find_node(graph, node) : nullptr;
  };
  for (const auto& [id, capture] : captures_) {
    if (const GraphNode* found = find_in(*capture.graph)) return found->dependencies;
  }
  for (const auto& [id, graph] : graphs_) {
    if (const GraphNode* found = find_in(*graph)) return found->dependencies;
  }
  return Status::invalid_argument(text("there is no node ", node, " on device ", device));
}

CaptureTable::Capture* CaptureTable::find_locked(const SimStream& stream) {
  for (auto& [id, capture] : captures_) {
    if (capture.tails.contains(&stream)) return &capture;
  }
  return nullptr;
}

const CaptureTable::Capture* CaptureTable::find_locked(const SimStream& stream) const {
  for (const auto& [id, capture] : captures_) {
    if (capture.tails.contains(&stream)) return &capture;
  }
  return nullptr;
}

}  // namespace ashlar::sim
