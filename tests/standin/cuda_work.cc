// The stand-in for libcuda.so.1: streams, events, work, the pool, captures and graphs.
#include <algorithm>

#include "standin/cuda_here.h"

namespace ashlar::standin {
namespace {

using cuda::Event;
using cuda::Graph;
using cuda::GraphExec;
using cuda::GraphNode;
using cuda::MemoryPool;
using cuda::Pointer;
using cuda::Stream;

// The call, given the device that a stream belongs to and the stream; a stream that was never made
// is refused, which is more than a driver promises.
template <typename Call>
int in_stream(Stream stream, const Call& call) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    Device& device = Core::get().device(Core::get().device_of_stream(on, number(stream)));
    return code_of(call(device, StreamId(number(stream))));
  });
}

int ready_or_not(const Result<bool>& answer) {
  if (!answer.ok()) return code_of(answer);
  return *answer ? kDone : kNotReady;
}

Device& device_of_pool(MemoryPool pool) { return Core::get().device(number(pool) - 1); }

// The nodes that the driver lends its caller until the thread's next question.
const GraphNode* lend(const std::vector<NodeId>& nodes) {
  thread_local std::vector<GraphNode> lent;
  lent.clear();
  for (const NodeId node : nodes) lent.push_back(handle_for<GraphNode>(node.value()));
  return lent.data();
}

}  // namespace

// --- streams and events -------------------------------------------------------------------------

ASHLAR_STANDIN int cuStreamCreateWithPriority(Stream* stream, unsigned, int priority) {
  return here([&](size_t on) {
    uint64_t made = 0;
    const int code = Core::get().create_stream(on, -priority, made);
    *stream = handle_for<Stream>(made);
    return code;
  });
}

ASHLAR_STANDIN int cuStreamDestroy_v2(Stream stream) {
  if (stream == nullptr || !Core::get().is_stream(number(stream))) return kInvalidHandle;
  return Core::get().destroy_stream(number(stream));
}

ASHLAR_STANDIN int cuStreamQuery(Stream stream) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    Device& device = Core::get().device(Core::get().device_of_stream(on, number(stream)));
    return ready_or_not(device.is_idle(StreamId(number(stream))));
  });
}

ASHLAR_STANDIN int cuStreamSynchronize(Stream stream) {
  return in_stream(stream, [](Device& on, StreamId id) { return on.synchronize_stream(id); });
}

ASHLAR_STANDIN int cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  (void)Core::get().device_of_event(number(event));  // ends the process if there is none
  return in_stream(
      stream, [&](Device& on, StreamId id) { return on.wait_event(id, EventId(number(event))); });
}

ASHLAR_STANDIN int cuEventCreate(Event* event, unsigned flags) {
  return here([&](size_t on) {
    uint64_t made = 0;
    const bool timing = (flags & cuda::kEventDisableTiming) == 0;
    const int code = Core::get().create_event(on, timing, made);
    *event = handle_for<Event>(made);
    return code;
  });
}

ASHLAR_STANDIN int cuEventDestroy_v2(Event event) {
  return Core::get().destroy_event(number(event));
}

ASHLAR_STANDIN int cuEventRecord(Event event, Stream stream) {
  (void)Core::get().device_of_event(number(event));
  return in_stream(
      stream, [&](Device& on, StreamId id) { return on.record_event(EventId(number(event)), id); });
}

ASHLAR_STANDIN int cuEventQuery(Event event) {
  Device& owner = Core::get().device(Core::get().device_of_event(number(event)));
  return ready_or_not(owner.is_done(EventId(number(event))));
}

ASHLAR_STANDIN int cuEventSynchronize(Event event) {
  Device& owner = Core::get().device(Core::get().device_of_event(number(event)));
  return code_of(owner.synchronize_event(EventId(number(event))));
}

ASHLAR_STANDIN int cuEventElapsedTime_v2(float* ms, Event begin, Event end) {
  Device& owner = Core::get().device(Core::get().device_of_event(number(begin)));
  const EventId first(number(begin));
  const EventId last(number(end));
  const Result<double> elapsed = owner.elapsed_ms(first, last);
  if (elapsed.ok()) *ms = static_cast<float>(*elapsed);
  if (!elapsed.status().is(StatusKind::kUsage)) return code_of(elapsed);
  const Result<bool> first_done = owner.is_done(first);
  const Result<bool> last_done = owner.is_done(last);
  const bool is_done = first_done.ok() && *first_done && last_done.ok() && *last_done;
  return is_done ? kInvalidHandle : kNotReady;
}

// --- work ---------------------------------------------------------------------------------------

ASHLAR_STANDIN int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_device(DeviceAddress(to), from, bytes, id);
  });
}

ASHLAR_STANDIN int cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_host(to, DeviceAddress(from), bytes, id);
  });
}

ASHLAR_STANDIN int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.copy(DeviceAddress(to), DeviceAddress(from), bytes, id);
  });
}

ASHLAR_STANDIN int cuMemcpyPeerAsync(Pointer to, cuda::Context to_context, Pointer from,
                                     cuda::Context, size_t bytes, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_peer(DeviceIndex(number(to_context) - 1), DeviceAddress(to),
                           DeviceAddress(from), bytes, id);
  });
}

ASHLAR_STANDIN int cuMemsetD8Async(Pointer at, unsigned char value, size_t bytes, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.fill(DeviceAddress(at), value, bytes, id);
  });
}

ASHLAR_STANDIN int cuLaunchHostFunc(Stream stream, cuda::HostFunction function, void* argument) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    return Core::get().call_host(on, number(stream), function, argument);
  });
}

// --- the stream-ordered pool --------------------------------------------------------------------

ASHLAR_STANDIN int cuMemPoolCreate(MemoryPool* pool, const cuda::MemPoolProps* properties) {
  if (!Core::get().abilities().pools) return kNotSupported;
  *pool = handle_for<MemoryPool>(static_cast<uint64_t>(properties->location.id) + 1);
  return kDone;
}

ASHLAR_STANDIN int cuMemPoolDestroy(MemoryPool pool) {
  return code_of(device_of_pool(pool).trim_pool(0));
}

ASHLAR_STANDIN int cuMemAllocFromPoolAsync(Pointer* at, size_t bytes, MemoryPool, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    const Result<DeviceAddress> made = on.allocate_async(bytes, id);
    if (made.ok()) *at = made->value();
    return made.status();
  });
}

ASHLAR_STANDIN int cuMemFreeAsync(Pointer at, Stream stream) {
  return in_stream(stream,
                   [&](Device& on, StreamId id) { return on.free_async(DeviceAddress(at), id); });
}

ASHLAR_STANDIN int cuMemPoolGetAttribute(MemoryPool pool, int attribute, void* value) {
  const Result<PoolUse> use = device_of_pool(pool).pool_use();
  if (!use.ok()) return code_of(use);
  uint64_t& bytes = *static_cast<uint64_t*>(value);
  switch (attribute) {
    case cuda::kPoolReservedCurrent: bytes = use->reserved_bytes; return kDone;
    case cuda::kPoolReservedHigh: bytes = use->reserved_peak_bytes; return kDone;
    case cuda::kPoolUsedCurrent: bytes = use->used_bytes; return kDone;
    case cuda::kPoolUsedHigh: bytes = use->used_peak_bytes; return kDone;
    default: return kInvalidValue;
  }
}

// The simulated pool resets both peaks at once.
ASHLAR_STANDIN int cuMemPoolSetAttribute(MemoryPool pool, int attribute, void* value) {
  const uint64_t bytes = *static_cast<uint64_t*>(value);
  if (attribute == cuda::kPoolReleaseThreshold) {
    return code_of(device_of_pool(pool).set_pool_threshold(bytes));
  }
  const bool is_peak = attribute == cuda::kPoolReservedHigh || attribute == cuda::kPoolUsedHigh;
  return is_peak && bytes == 0 ? code_of(device_of_pool(pool).reset_pool_peaks()) : kInvalidValue;
}

ASHLAR_STANDIN int cuMemPoolTrimTo(MemoryPool pool, size_t keep_bytes) {
  return code_of(device_of_pool(pool).trim_pool(keep_bytes));
}

// --- captures and graphs ------------------------------------------------------------------------

ASHLAR_STANDIN int cuStreamBeginCapture_v2(Stream stream, int mode) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.begin_capture(id, static_cast<CaptureMode>(mode));
  });
}

ASHLAR_STANDIN int cuStreamEndCapture(Stream stream, Graph* graph) {
  return here([&](size_t on) {
    uint64_t ended = 0;
    const int code = Core::get().end_capture(on, number(stream), ended);
    *graph = handle_for<Graph>(ended);
    return code;
  });
}

ASHLAR_STANDIN int cuStreamGetCaptureInfo_v3(Stream stream, int* status, uint64_t* id, Graph* graph,
                                             const GraphNode** tail,
                                             const cuda::GraphEdgeData** edges, size_t* count) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    CaptureState state;
    const int code = Core::get().capture_state(on, number(stream), state);
    if (code != kDone) return code;
    *status = static_cast<int>(state.status);
    *id = state.capture.value();
    *graph = handle_for<Graph>(state.graph.value());
    *tail = lend(state.tail);
    *edges = nullptr;
    *count = state.tail.size();
    return kDone;
  });
}

ASHLAR_STANDIN int cuGraphNodeGetDependencies_v2(GraphNode node, GraphNode* nodes,
                                                 cuda::GraphEdgeData*, size_t* count) {
  std::vector<NodeId> before;
  const int code = Core::get().node_dependencies(number(node), before);
  if (code != kDone) return code;
  if (nodes != nullptr) {
    const GraphNode* lent = lend(before);
    std::copy_n(lent, std::min(*count, before.size()), nodes);
  }
  *count = before.size();
  return kDone;
}

ASHLAR_STANDIN int cuThreadExchangeStreamCaptureMode(int* mode) {
  *mode = static_cast<int>(exchange_mode(static_cast<CaptureMode>(*mode)));
  return kDone;
}

ASHLAR_STANDIN int cuUserObjectCreate(cuda::UserObject* object, void* thing,
                                      cuda::HostFunction drop, unsigned, unsigned) {
  uint64_t made = 0;
  const int code = Core::get().make_object(thing, drop, made);
  *object = handle_for<cuda::UserObject>(made);
  return code;
}

ASHLAR_STANDIN int cuUserObjectRelease(cuda::UserObject object, unsigned) {
  return Core::get().release_object(number(object));
}

ASHLAR_STANDIN int cuGraphRetainUserObject(Graph graph, cuda::UserObject object, unsigned,
                                           unsigned) {
  return Core::get().retain_object(number(graph), number(object));
}

ASHLAR_STANDIN int cuGraphInstantiateWithFlags(GraphExec* launchable, Graph graph,
                                               unsigned long long) {
  uint64_t made = 0;
  const int code = Core::get().instantiate(number(graph), made);
  *launchable = handle_for<GraphExec>(made);
  return code;
}

ASHLAR_STANDIN int cuGraphLaunch(GraphExec launchable, Stream stream) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    return Core::get().launch(on, number(launchable), number(stream));
  });
}

ASHLAR_STANDIN int cuGraphExecDestroy(GraphExec launchable) {
  return Core::get().destroy_launchable(number(launchable));
}

ASHLAR_STANDIN int cuGraphDestroy(Graph graph) { return Core::get().destroy_graph(number(graph)); }

}  // namespace ashlar::standin
