// SPDX-License-Identifier: Apache-2.0
//
// Implements streams, events, captures and graphs.
#include "standin/core.h"
#include "standin/handle_lookup.h"

namespace ashlar::standin {

// --- streams and events

Code Core::create_stream(size_t on, int priority, uint64_t& stream) {
  const Result<StreamId> made = device(on).create_stream({.priority = priority});
  if (!made.ok()) return code_of(made);
  stream = made->value();
  const std::lock_guard lock(mutex_);
  streams_[stream] = on;
  return kDone;
}

Code Core::destroy_stream(uint64_t stream) {
  const Code destroyed =
      code_of(device(device_of_stream(0, stream)).destroy_stream(StreamId(stream)));
  if (destroyed != kDone) return destroyed;
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
  return kDone;
}

bool Core::is_stream(uint64_t stream) {
  const std::lock_guard lock(mutex_);
  return stream == 0 || streams_.contains(stream);
}

size_t Core::device_of_stream(size_t on, uint64_t stream) {
  if (stream == 0) return on;
  const std::lock_guard lock(mutex_);
  return find_or_abort(streams_, "stream", stream);
}

Code Core::create_event(size_t on, bool timing, uint64_t& event) {
  const Result<EventId> made = device(on).create_event({.timing = timing});
  if (!made.ok()) return code_of(made);
  event = made->value();
  const std::lock_guard lock(mutex_);
  events_[event] = on;
  return kDone;
}

size_t Core::device_of_event(uint64_t event) {
  const std::lock_guard lock(mutex_);
  return find_or_abort(events_, "event", event);
}

Code Core::destroy_event(uint64_t event) {
  const Code destroyed = code_of(device(device_of_event(event)).destroy_event(EventId(event)));
  if (destroyed != kDone) return destroyed;
  const std::lock_guard lock(mutex_);
  events_.erase(event);
  return kDone;
}

Code Core::call_host(size_t on, uint64_t stream, void (*function)(void*), void* argument) {
  Device& owner = device(device_of_stream(on, stream));
  const Result<CaptureState> state = owner.capture_state(StreamId(stream));
  std::shared_ptr<Objects> objects;
  if (state.ok() && state->status == CaptureStatus::kActive) {
    const std::lock_guard lock(mutex_);
    objects = graphs_[state->graph.value()].objects;
  }
  return code_of(
      owner.call_host(StreamId(stream), [function, argument, objects] { function(argument); }));
}

// --- graphs

Code Core::capture_state(size_t on, uint64_t stream, CaptureState& state) {
  const size_t owner = device_of_stream(on, stream);
  Result<CaptureState> found = device(owner).capture_state(StreamId(stream));
  if (!found.ok()) return code_of(found);
  state = *std::move(found);
  if (state.status == CaptureStatus::kNone) return kDone;
  const std::lock_guard lock(mutex_);
  graphs_[state.graph.value()].device = owner;
  for (const NodeId node : state.tail) nodes_[node.value()] = state.graph.value();
  return kDone;
}

Code Core::end_capture(size_t on, uint64_t stream, uint64_t& graph) {
  CaptureState before;
  if (const Code asked = capture_state(on, stream, before); asked != kDone) return asked;
  const size_t owner = device_of_stream(on, stream);
  const Result<GraphId> ended = device(owner).end_capture(StreamId(stream));
  const Result<CaptureState> after = device(owner).capture_state(StreamId(stream));
  const bool is_over = after.ok() && after->status == CaptureStatus::kNone;
  const std::lock_guard lock(mutex_);
  if (!ended.ok()) {
    if (is_over && before.status != CaptureStatus::kNone) graphs_.erase(before.graph.value());
    return code_of(ended);
  }
  graph = ended->value();
  graphs_[graph].device = owner;
  return kDone;
}

Code Core::node_dependencies(uint64_t node, std::vector<NodeId>& before) {
  size_t owner = 0;
  {
    const std::lock_guard lock(mutex_);
    owner = find_or_abort(graphs_, "graph", find_or_abort(nodes_, "node", node)).device;
  }
  Result<std::vector<NodeId>> found = device(owner).node_dependencies(NodeId(node));
  if (!found.ok()) return code_of(found);
  before = *std::move(found);
  const std::lock_guard lock(mutex_);
  for (const NodeId each : before) nodes_[each.value()] = nodes_[node];
  return kDone;
}

Core::Object::~Object() {
  if (drop != nullptr) callbacks.post({drop, user_data});
}

Code Core::make_object(void* user_data, void (*drop)(void*), uint64_t& object) {
  auto made = std::make_shared<Object>(callbacks_);
  made->user_data = user_data;
  made->drop = drop;
  const std::lock_guard lock(mutex_);
  object = ++last_id_;
  objects_[object] = std::move(made);
  return kDone;
}

Code Core::release_object(uint64_t object) {
  std::shared_ptr<Object> last;
  const std::lock_guard lock(mutex_);
  last = find_or_abort(objects_, "object", object);
  objects_.erase(object);
  return kDone;
}

Code Core::retain_object(uint64_t graph, uint64_t object) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Object> moved = find_or_abort(objects_, "object", object);
  find_or_abort(graphs_, "graph", graph).objects->push_back(moved);
  objects_.erase(object);
  return kDone;
}

Code Core::instantiate(uint64_t graph, uint64_t& exec) {
  const std::lock_guard lock(mutex_);
  ++find_or_abort(graphs_, "graph", graph).exec_count;
  exec = ++last_id_;
  graph_execs_[exec] = graph;
  return kDone;
}

Code Core::launch(size_t on, uint64_t exec, uint64_t stream) {
  uint64_t graph = 0;
  std::shared_ptr<Objects> objects;
  {
    const std::lock_guard lock(mutex_);
    graph = find_or_abort(graph_execs_, "graph exec", exec);
    objects = find_or_abort(graphs_, "graph", graph).objects;
  }
  Device& owner = device(device_of_stream(on, stream));
  const Status launched = owner.launch_graph(GraphId(graph), StreamId(stream));
  if (!launched.ok() || objects->empty()) return code_of(launched);
  // The launch owns the user objects until it has ended. If the launch is captured, the graph owns
  // them as well.
  return code_of(owner.call_host(StreamId(stream), [objects] {}));
}

Code Core::destroy_exec(uint64_t exec) {
  uint64_t graph = 0;
  {
    const std::lock_guard lock(mutex_);
    graph = find_or_abort(graph_execs_, "graph exec", exec);
    graph_execs_.erase(exec);
    --graphs_[graph].exec_count;
  }
  return drop_graph_if_unused(graph);
}

Code Core::destroy_graph(uint64_t graph) {
  const auto mark = [&](bool is_destroyed) {
    const std::lock_guard lock(mutex_);
    find_or_abort(graphs_, "graph", graph).is_destroyed = is_destroyed;
  };
  mark(true);
  const Code destroyed = drop_graph_if_unused(graph);
  if (destroyed != kDone) mark(false);
  return destroyed;
}

// A graph and its graph execs share one simulated graph, which is destroyed with the last of them.
Code Core::drop_graph_if_unused(uint64_t graph) {
  size_t on = 0;
  {
    const std::lock_guard lock(mutex_);
    const Graph& found = find_or_abort(graphs_, "graph", graph);
    if (!found.is_destroyed || found.exec_count != 0) return kDone;
    on = found.device;
  }
  const Code destroyed = code_of(device(on).destroy_graph(GraphId(graph)));
  if (destroyed != kDone) return destroyed;
  Graph dropped;  // declared before the lock: destroying user objects calls user code
  const std::lock_guard lock(mutex_);
  dropped = std::move(graphs_.find(graph)->second);
  graphs_.erase(graph);
  std::erase_if(nodes_, [&](const auto& node) { return node.second == graph; });
  return kDone;
}

}  // namespace ashlar::standin
