// The stand-in for libamdhip64.so: streams, events, work, the pool, captures and graphs.
#include <algorithm>

#include "standin/hip_here.h"

namespace ashlar::standin {
namespace {

using hip::Event;
using hip::Graph;
using hip::GraphExec;
using hip::GraphNode;
using hip::MemPool;
using hip::Stream;

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

Device& device_of_pool(MemPool pool) { return Core::get().device(number(pool) - 1); }

// The nodes that the driver lends its caller until the thread's next question.
const GraphNode* lend(const std::vector<NodeId>& nodes) {
  thread_local std::vector<GraphNode> lent;
  lent.clear();
  for (const NodeId node : nodes) lent.push_back(handle_for<GraphNode>(node.value()));
  return lent.data();
}

}  // namespace

// --- streams and events -------------------------------------------------------------------------

ASHLAR_STANDIN int hipStreamCreateWithPriority(Stream* stream, unsigned, int priority) {
  return here([&](size_t on) {
    uint64_t made = 0;
    const int code = Core::get().create_stream(on, -priority, made);
    *stream = handle_for<Stream>(made);
    return code;
  });
}

ASHLAR_STANDIN int hipStreamDestroy(Stream stream) {
  if (stream == nullptr || !Core::get().is_stream(number(stream))) return kInvalidHandle;
  return Core::get().destroy_stream(number(stream));
}

ASHLAR_STANDIN int hipStreamQuery(Stream stream) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    Device& device = Core::get().device(Core::get().device_of_stream(on, number(stream)));
    return ready_or_not(device.is_idle(StreamId(number(stream))));
  });
}

ASHLAR_STANDIN int hipStreamSynchronize(Stream stream) {
  return in_stream(stream, [](Device& on, StreamId id) { return on.synchronize_stream(id); });
}

ASHLAR_STANDIN int hipStreamWaitEvent(Stream stream, Event event, unsigned) {
  (void)Core::get().device_of_event(number(event));  // ends the process if there is none
  return in_stream(
      stream, [&](Device& on, StreamId id) { return on.wait_event(id, EventId(number(event))); });
}

ASHLAR_STANDIN int hipEventCreateWithFlags(Event* event, unsigned flags) {
  return here([&](size_t on) {
    uint64_t made = 0;
    const bool timing = (flags & hip::kEventDisableTiming) == 0;
    const int code = Core::get().create_event(on, timing, made);
    *event = handle_for<Event>(made);
    return code;
  });
}

ASHLAR_STANDIN int hipEventDestroy(Event event) { return Core::get().destroy_event(number(event)); }

ASHLAR_STANDIN int hipEventRecord(Event event, Stream stream) {
  (void)Core::get().device_of_event(number(event));
  return in_stream(
      stream, [&](Device& on, StreamId id) { return on.record_event(EventId(number(event)), id); });
}

ASHLAR_STANDIN int hipEventQuery(Event event) {
  Device& owner = Core::get().device(Core::get().device_of_event(number(event)));
  return ready_or_not(owner.is_done(EventId(number(event))));
}

ASHLAR_STANDIN int hipEventSynchronize(Event event) {
  Device& owner = Core::get().device(Core::get().device_of_event(number(event)));
  return code_of(owner.synchronize_event(EventId(number(event))));
}

ASHLAR_STANDIN int hipEventElapsedTime(float* ms, Event begin, Event end) {
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

ASHLAR_STANDIN int hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_device(address(to), from, bytes, id);
  });
}

ASHLAR_STANDIN int hipMemcpyDtoHAsync(void* to, void* from, size_t bytes, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_host(to, address(from), bytes, id);
  });
}

ASHLAR_STANDIN int hipMemcpyDtoDAsync(void* to, void* from, size_t bytes, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.copy(address(to), address(from), bytes, id);
  });
}

ASHLAR_STANDIN int hipMemcpyPeerAsync(void* to, int to_device, const void* from, int, size_t bytes,
                                      Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.copy_to_peer(DeviceIndex(static_cast<uint64_t>(to_device)), address(to),
                           address(from), bytes, id);
  });
}

ASHLAR_STANDIN int hipMemsetD8Async(void* at, unsigned char value, size_t bytes, Stream stream) {
  return in_stream(stream,
                   [&](Device& on, StreamId id) { return on.fill(address(at), value, bytes, id); });
}

ASHLAR_STANDIN int hipLaunchHostFunc(Stream stream, hip::HostFunction function, void* argument) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    return Core::get().call_host(on, number(stream), function, argument);
  });
}

// --- the stream-ordered pool --------------------------------------------------------------------

ASHLAR_STANDIN int hipMemPoolCreate(MemPool* pool, const hip::MemPoolProps* properties) {
  if (!Core::get().abilities().pools) return kNotSupported;
  *pool = handle_for<MemPool>(static_cast<uint64_t>(properties->location.id) + 1);
  return kDone;
}

ASHLAR_STANDIN int hipMemPoolDestroy(MemPool pool) {
  return code_of(device_of_pool(pool).trim_pool(0));
}

ASHLAR_STANDIN int hipMallocFromPoolAsync(void** at, size_t bytes, MemPool, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    const Result<DeviceAddress> made = on.allocate_async(bytes, id);
    if (made.ok()) *at = pointer(made->value());
    return made.status();
  });
}

ASHLAR_STANDIN int hipFreeAsync(void* at, Stream stream) {
  return in_stream(stream, [&](Device& on, StreamId id) { return on.free_async(address(at), id); });
}

ASHLAR_STANDIN int hipMemPoolGetAttribute(MemPool pool, int attribute, void* value) {
  const Result<PoolUse> use = device_of_pool(pool).pool_use();
  if (!use.ok()) return code_of(use);
  uint64_t& bytes = *static_cast<uint64_t*>(value);
  switch (attribute) {
    case hip::kPoolReservedCurrent: bytes = use->reserved_bytes; return kDone;
    case hip::kPoolReservedHigh: bytes = use->reserved_peak_bytes; return kDone;
    case hip::kPoolUsedCurrent: bytes = use->used_bytes; return kDone;
    case hip::kPoolUsedHigh: bytes = use->used_peak_bytes; return kDone;
    default: return kInvalidValue;
  }
}

// The simulated pool resets both peaks at once.
ASHLAR_STANDIN int hipMemPoolSetAttribute(MemPool pool, int attribute, void* value) {
  const uint64_t bytes = *static_cast<uint64_t*>(value);
  if (attribute == hip::kPoolReleaseThreshold) {
    return code_of(device_of_pool(pool).set_pool_threshold(bytes));
  }
  const bool is_peak = attribute == hip::kPoolReservedHigh || attribute == hip::kPoolUsedHigh;
  return is_peak && bytes == 0 ? code_of(device_of_pool(pool).reset_pool_peaks()) : kInvalidValue;
}

ASHLAR_STANDIN int hipMemPoolTrimTo(MemPool pool, size_t keep_bytes) {
  return code_of(device_of_pool(pool).trim_pool(keep_bytes));
}

// --- captures and graphs ------------------------------------------------------------------------

ASHLAR_STANDIN int hipStreamBeginCapture(Stream stream, int mode) {
  return in_stream(stream, [&](Device& on, StreamId id) {
    return on.begin_capture(id, static_cast<CaptureMode>(mode));
  });
}

ASHLAR_STANDIN int hipStreamEndCapture(Stream stream, Graph* graph) {
  return here([&](size_t on) {
    uint64_t ended = 0;
    const int code = Core::get().end_capture(on, number(stream), ended);
    *graph = handle_for<Graph>(ended);
    return code;
  });
}

ASHLAR_STANDIN int hipStreamGetCaptureInfo_v2(Stream stream, int* status, unsigned long long* id,
                                              Graph* graph, const GraphNode** tail, size_t* count) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    CaptureState state;
    const int code = Core::get().capture_state(on, number(stream), state);
    if (code != kDone) return code;
    *status = static_cast<int>(state.status);
    *id = state.capture.value();
    *graph = handle_for<Graph>(state.graph.value());
    *tail = lend(state.tail);
    *count = state.tail.size();
    return kDone;
  });
}

ASHLAR_STANDIN int hipGraphNodeGetDependencies(GraphNode node, GraphNode* nodes, size_t* count) {
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

ASHLAR_STANDIN int hipThreadExchangeStreamCaptureMode(int* mode) {
  *mode = static_cast<int>(exchange_mode(static_cast<CaptureMode>(*mode)));
  return kDone;
}

ASHLAR_STANDIN int hipUserObjectCreate(hip::UserObject* object, void* thing, hip::HostFunction drop,
                                       unsigned, unsigned) {
  uint64_t made = 0;
  const int code = Core::get().make_object(thing, drop, made);
  *object = handle_for<hip::UserObject>(made);
  return code;
}

ASHLAR_STANDIN int hipUserObjectRelease(hip::UserObject object, unsigned) {
  return Core::get().release_object(number(object));
}

ASHLAR_STANDIN int hipGraphRetainUserObject(Graph graph, hip::UserObject object, unsigned,
                                            unsigned) {
  return Core::get().retain_object(number(graph), number(object));
}

ASHLAR_STANDIN int hipGraphInstantiateWithFlags(GraphExec* launchable, Graph graph,
                                                unsigned long long) {
  uint64_t made = 0;
  const int code = Core::get().instantiate(number(graph), made);
  *launchable = handle_for<GraphExec>(made);
  return code;
}

ASHLAR_STANDIN int hipGraphLaunch(GraphExec launchable, Stream stream) {
  return here([&](size_t on) {
    if (!Core::get().is_stream(number(stream))) return kInvalidHandle;
    return Core::get().launch(on, number(launchable), number(stream));
  });
}

ASHLAR_STANDIN int hipGraphExecDestroy(GraphExec launchable) {
  return Core::get().destroy_launchable(number(launchable));
}

ASHLAR_STANDIN int hipGraphDestroy(Graph graph) { return Core::get().destroy_graph(number(graph)); }

}  // namespace ashlar::standin
