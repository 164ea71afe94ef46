// SPDX-License-Identifier: Apache-2.0
//
// Exports the functions for streams, events, work, the pool, captures and graphs that CUDA and HIP
// share.
#include <algorithm>
#include <vector>

#include "standin/current_device.h"

namespace ashlar::standin {
namespace {

using abi::Event;
using abi::Graph;
using abi::GraphExec;
using abi::GraphNode;
using abi::MemoryPool;
using abi::Pointer;
using abi::Stream;

int query_code(const Result<bool>& answer) {
  if (!answer.ok()) return code_of(answer);
  return *answer ? kDone : kNotReady;
}

Device& device_of_pool(MemoryPool pool) { return Core::get().device(number(pool) - 1); }

// Returns an array that the driver owns. It is valid until the thread's next query.
const GraphNode* borrowed_nodes(const std::vector<NodeId>& nodes) {
  thread_local std::vector<GraphNode> lent;
  lent.clear();
  for (const NodeId node : nodes) lent.push_back(handle_for<GraphNode>(node.value()));
  return lent.data();
}

}  // namespace

// --- streams and events

ASHLAR_STANDIN_FOR(cuStreamCreateWithPriority, hipStreamCreateWithPriority)
(Stream* stream, unsigned, int priority) {
  return on_current_device([&](size_t on) {
    uint64_t made = 0;
    const int code = Core::get().create_stream(on, -priority, made);
    *stream = handle_for<Stream>(made);
    return code;
  });
}

ASHLAR_STANDIN_FOR(cuStreamDestroy_v2, hipStreamDestroy)(Stream stream) {
  if (stream == nullptr || !Core::get().is_stream(number(stream))) return kInvalidHandle;
  return Core::get().destroy_stream(number(stream));
}

ASHLAR_STANDIN_FOR(cuStreamQuery, hipStreamQuery)(Stream stream) {
  return on_current_device([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    Device& device = Core::get().device(Core::get().device_of_stream(on, number(stream)));
    return query_code(device.is_idle(StreamId(number(stream))));
  });
}

ASHLAR_STANDIN_FOR(cuStreamSynchronize, hipStreamSynchronize)(Stream stream) {
  return on_stream(stream, [](Device& on, StreamId id) { return on.synchronize_stream(id); });
}

ASHLAR_STANDIN_FOR(cuStreamWaitEvent, hipStreamWaitEvent)(Stream stream, Event event, unsigned) {
  (void)Core::get().device_of_event(number(event));  // aborts on an invalid event
  return on_stream(
      stream, [&](Device& on, StreamId id) { return on.wait_event(id, EventId(number(event))); });
}

ASHLAR_STANDIN_FOR(cuEventCreate, hipEventCreateWithFlags)(Event* event, unsigned flags) {
  return on_current_device([&](size_t on) {
    uint64_t made = 0;
    const bool timing = (flags & abi::kEventDisableTiming) == 0;
    const int code = Core::get().create_event(on, timing, made);
    *event = handle_for<Event>(made);
    return code;
  });
}

ASHLAR_STANDIN_FOR(cuEventDestroy_v2, hipEventDestroy)(Event event) {
  return Core::get().destroy_event(number(event));
}

ASHLAR_STANDIN_FOR(cuEventRecord, hipEventRecord)(Event event, Stream stream) {
  (void)Core::get().device_of_event(number(event));
  return on_stream(
      stream, [&](Device& on, StreamId id) { return on.record_event(EventId(number(event)), id); });
}

ASHLAR_STANDIN_FOR(cuEventQuery, hipEventQuery)(Event event) {
  Device& owner = Core::get().device(Core::get().device_of_event(number(event)));
  return query_code(owner.is_done(EventId(number(event))));
}

ASHLAR_STANDIN_FOR(cuEventSynchronize, hipEventSynchronize)(Event event) {
  Device& owner = Core::get().device(Core::get().device_of_event(number(event)));
  return code_of(owner.synchronize_event(EventId(number(event))));
}

ASHLAR_STANDIN_FOR(cuEventElapsedTime_v2, hipEventElapsedTime)(float* ms, Event begin, Event end) {
  Device& owner = Core::get().device(Core::get().device_of_event(number(begin)));
  const EventId first(number(begin));
  const EventId last(number(end));
  const Result<double> elapsed = owner.elapsed_ms(first, last);
  if (elapsed.ok()) *ms = static_cast<float>(*elapsed);
  if (!elapsed.status().is(StatusKind::kInvalidArgument)) return code_of(elapsed);
  const Result<bool> first_done = owner.is_done(first);
  const Result<bool> last_done = owner.is_done(last);
  const bool is_done = first_done.ok() && *first_done && last_done.ok() && *last_done;
  return is_done ? kInvalidHandle : kNotReady;
}

// --- work

ASHLAR_STANDIN_FOR(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)
(Pointer to, const void* from, size_t bytes, Stream stream) {
  return on_stream(stream, [&](Device& on, StreamId id) {
    if (Core::get().loses_store(to)) return Status();
    return on.copy_to_device(DeviceAddress(to), from, bytes, id);
  });
}

ASHLAR_STANDIN_FOR(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)
(void* to, Pointer from, size_t bytes, Stream stream) {
  return on_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_host(to, DeviceAddress(from), bytes, id);
  });
}

ASHLAR_STANDIN_FOR(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)
(Pointer to, Pointer from, size_t bytes, Stream stream) {
  return on_stream(stream, [&](Device& on, StreamId id) {
    if (Core::get().loses_store(to)) return Status();
    return on.copy(DeviceAddress(to), DeviceAddress(from), bytes, id);
  });
}

ASHLAR_STANDIN_FOR(cuMemsetD8Async, hipMemsetD8Async)
(Pointer at, unsigned char value, size_t bytes, Stream stream) {
  return on_stream(stream, [&](Device& on, StreamId id) {
    if (Core::get().loses_store(at)) return Status();
    return on.fill(DeviceAddress(at), value, bytes, id);
  });
}

ASHLAR_STANDIN_FOR(cuLaunchHostFunc, hipLaunchHostFunc)
(Stream stream, abi::HostFunction function, void* argument) {
  return on_current_device([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    return Core::get().call_host(on, number(stream), function, argument);
  });
}

// --- the stream-ordered pool

ASHLAR_STANDIN_FOR(cuMemPoolCreate, hipMemPoolCreate)
(MemoryPool* pool, const abi::MemPoolProps* properties) {
  if (!Core::get().features().stream_ordered_pool) return kNotSupported;
  *pool = handle_for<MemoryPool>(static_cast<uint64_t>(properties->location.id) + 1);
  return kDone;
}

ASHLAR_STANDIN_FOR(cuMemPoolDestroy, hipMemPoolDestroy)(MemoryPool pool) {
  return code_of(device_of_pool(pool).trim_pool(0));
}

ASHLAR_STANDIN_FOR(cuMemAllocFromPoolAsync, hipMallocFromPoolAsync)
(Pointer* at, size_t bytes, MemoryPool, Stream stream) {
  return on_stream(stream, [&](Device& on, StreamId id) {
    const Result<DeviceAddress> made = on.allocate_async(bytes, id);
    if (made.ok()) *at = made->value();
    return made.status();
  });
}

ASHLAR_STANDIN_FOR(cuMemFreeAsync, hipFreeAsync)(Pointer at, Stream stream) {
  return on_stream(stream,
                   [&](Device& on, StreamId id) { return on.free_async(DeviceAddress(at), id); });
}

ASHLAR_STANDIN_FOR(cuMemPoolGetAttribute, hipMemPoolGetAttribute)
(MemoryPool pool, int attribute, void* value) {
  const Result<DriverPoolStats> use = device_of_pool(pool).driver_pool_stats();
  if (!use.ok()) return code_of(use);
  uint64_t& bytes = *static_cast<uint64_t*>(value);
  switch (attribute) {
    case abi::kPoolReservedCurrent: bytes = use->reserved_bytes; return kDone;
    case abi::kPoolReservedHigh: bytes = use->reserved_peak_bytes; return kDone;
    case abi::kPoolUsedCurrent: bytes = use->used_bytes; return kDone;
    case abi::kPoolUsedHigh: bytes = use->used_peak_bytes; return kDone;
    default: return kInvalidValue;
  }
}

// A reset of either peak resets both, because the simulated pool can only reset them together.
ASHLAR_STANDIN_FOR(cuMemPoolSetAttribute, hipMemPoolSetAttribute)
(MemoryPool pool, int attribute, void* value) {
  const uint64_t bytes = *static_cast<uint64_t*>(value);
  if (attribute == abi::kPoolReleaseThreshold) {
    return code_of(device_of_pool(pool).set_pool_threshold(bytes));
  }
  const bool is_peak = attribute == abi::kPoolReservedHigh || attribute == abi::kPoolUsedHigh;
  return is_peak && bytes == 0 ? code_of(device_of_pool(pool).reset_pool_peaks()) : kInvalidValue;
}

ASHLAR_STANDIN_FOR(cuMemPoolTrimTo, hipMemPoolTrimTo)(MemoryPool pool, size_t keep_bytes) {
  return code_of(device_of_pool(pool).trim_pool(keep_bytes));
}

// --- captures and graphs

ASHLAR_STANDIN_FOR(cuStreamBeginCapture_v2, hipStreamBeginCapture)(Stream stream, int mode) {
  return on_stream(stream, [&](Device& on, StreamId id) {
    return on.begin_capture(id, static_cast<CaptureMode>(mode));
  });
}

ASHLAR_STANDIN_FOR(cuStreamEndCapture, hipStreamEndCapture)(Stream stream, Graph* graph) {
  return on_current_device([&](size_t on) {
    uint64_t ended = 0;
    const int code = Core::get().end_capture(on, number(stream), ended);
    *graph = handle_for<Graph>(ended);
    return code;
  });
}

int capture_info(Stream stream, const CaptureInfoArguments& answers) {
  return on_current_device([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    CaptureState state;
    const int code = Core::get().capture_state(on, number(stream), state);
    if (code != kDone) return code;
    *answers.status = static_cast<int>(state.status);
    *answers.id = state.capture.value();
    *answers.graph = handle_for<Graph>(state.graph.value());
    *answers.tail = borrowed_nodes(state.tail);
    *answers.count = state.tail.size();
    return kDone;
  });
}

int node_dependencies(GraphNode node, GraphNode* nodes, size_t* count) {
  std::vector<NodeId> before;
  const int code = Core::get().node_dependencies(number(node), before);
  if (code != kDone) return code;
  if (nodes != nullptr) {
    const GraphNode* lent = borrowed_nodes(before);
    std::copy_n(lent, std::min(*count, before.size()), nodes);
  }
  *count = before.size();
  return kDone;
}

ASHLAR_STANDIN_FOR(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)
(int* mode) {
  *mode = static_cast<int>(exchange_mode(static_cast<CaptureMode>(*mode)));
  return kDone;
}

ASHLAR_STANDIN_FOR(cuUserObjectCreate, hipUserObjectCreate)
(abi::UserObject* object, void* user_data, abi::HostFunction drop, unsigned, unsigned) {
  uint64_t made = 0;
  const int code = Core::get().make_object(user_data, drop, made);
  *object = handle_for<abi::UserObject>(made);
  return code;
}

ASHLAR_STANDIN_FOR(cuUserObjectRelease, hipUserObjectRelease)(abi::UserObject object, unsigned) {
  return Core::get().release_object(number(object));
}

ASHLAR_STANDIN_FOR(cuGraphRetainUserObject, hipGraphRetainUserObject)
(Graph graph, abi::UserObject object, unsigned, unsigned) {
  return Core::get().retain_object(number(graph), number(object));
}

ASHLAR_STANDIN_FOR(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)
(GraphExec* exec, Graph graph, unsigned long long) {
  uint64_t made = 0;
  const int code = Core::get().instantiate(number(graph), made);
  *exec = handle_for<GraphExec>(made);
  return code;
}

ASHLAR_STANDIN_FOR(cuGraphLaunch, hipGraphLaunch)(GraphExec exec, Stream stream) {
  return on_current_device([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    return Core::get().launch(on, number(exec), number(stream));
  });
}

ASHLAR_STANDIN_FOR(cuGraphExecDestroy, hipGraphExecDestroy)(GraphExec exec) {
  return Core::get().destroy_exec(number(exec));
}

ASHLAR_STANDIN_FOR(cuGraphDestroy, hipGraphDestroy)(Graph graph) {
  return Core::get().destroy_graph(number(graph));
}

}  // namespace ashlar::standin
