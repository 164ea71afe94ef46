// The neutral functions as HIP's: streams, events, work, the pool, captures and graphs.
#include "device/gpu/native.h"
#include "device/hip/hip_driver.h"
#include "device/hip/pointer.h"

namespace ashlar::hip {
namespace {

using gpu::native;
using gpu::number_of;

Stream native(StreamId stream) { return native<Stream>(stream.value()); }

int pool_attribute(gpu::PoolFigure figure) {
  switch (figure) {
    case gpu::PoolFigure::kReserved: return kPoolReservedCurrent;
    case gpu::PoolFigure::kReservedPeak: return kPoolReservedHigh;
    case gpu::PoolFigure::kUsed: return kPoolUsedCurrent;
    case gpu::PoolFigure::kUsedPeak: return kPoolUsedHigh;
  }
  return kPoolUsedCurrent;
}

CaptureStatus status_from(int capture_status) {
  if (capture_status == kCaptureNone) return CaptureStatus::kNone;
  return capture_status == kCaptureActive ? CaptureStatus::kActive : CaptureStatus::kInvalidated;
}

}  // namespace

// --- streams and events -------------------------------------------------------------------------

gpu::Outcome HipDriver::create_stream(int priority, StreamId& stream) {
  Stream made = nullptr;
  const gpu::Outcome outcome =
      told(api_.stream_create_with_priority(&made, kStreamNonBlocking, -priority));
  stream = StreamId(number_of(made));
  return outcome;
}

gpu::Outcome HipDriver::destroy_stream(StreamId stream) {
  return told(api_.stream_destroy(native(stream)));
}

gpu::Outcome HipDriver::query_stream(StreamId stream) {
  return told(api_.stream_query(native(stream)));
}

gpu::Outcome HipDriver::synchronize_stream(StreamId stream) {
  return told(api_.stream_synchronize(native(stream)));
}

gpu::Outcome HipDriver::synchronize_device() { return told(api_.device_synchronize()); }

gpu::Outcome HipDriver::create_event(bool timing, gpu::Handle& event) {
  Event made = nullptr;
  const gpu::Outcome outcome =
      told(api_.event_create_with_flags(&made, timing ? 0 : kEventDisableTiming));
  event = number_of(made);
  return outcome;
}

gpu::Outcome HipDriver::destroy_event(gpu::Handle event) {
  return told(api_.event_destroy(native<Event>(event)));
}

gpu::Outcome HipDriver::record_event(gpu::Handle event, StreamId stream) {
  return told(api_.event_record(native<Event>(event), native(stream)));
}

gpu::Outcome HipDriver::query_event(gpu::Handle event) {
  return told(api_.event_query(native<Event>(event)));
}

gpu::Outcome HipDriver::synchronize_event(gpu::Handle event) {
  return told(api_.event_synchronize(native<Event>(event)));
}

gpu::Outcome HipDriver::wait_event(StreamId stream, gpu::Handle event) {
  return told(api_.stream_wait_event(native(stream), native<Event>(event), 0));
}

gpu::Outcome HipDriver::elapsed_ms(gpu::Handle begin, gpu::Handle end, float& ms) {
  return told(api_.event_elapsed_time(&ms, native<Event>(begin), native<Event>(end)));
}

// --- work ---------------------------------------------------------------------------------------

gpu::Outcome HipDriver::copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                       StreamId stream) {
  return told(api_.memcpy_htod_async(pointer(to), from, bytes, native(stream)));
}

gpu::Outcome HipDriver::copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) {
  return told(api_.memcpy_dtoh_async(to, pointer(from), bytes, native(stream)));
}

gpu::Outcome HipDriver::copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) {
  return told(api_.memcpy_dtod_async(pointer(to), pointer(from), bytes, native(stream)));
}

gpu::Outcome HipDriver::copy_to_peer(const PeerCopy& copy, StreamId stream) {
  return told(api_.memcpy_peer_async(pointer(copy.to), copy.to_device, pointer(copy.from),
                                     copy.from_device, copy.bytes, native(stream)));
}

gpu::Outcome HipDriver::fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) {
  return told(api_.memset_d8_async(pointer(at), value, bytes, native(stream)));
}

gpu::Outcome HipDriver::call_host(StreamId stream, void (*function)(void*), void* argument) {
  return told(api_.launch_host_func(native(stream), function, argument));
}

// --- the stream-ordered pool --------------------------------------------------------------------

gpu::Outcome HipDriver::create_pool(int device, gpu::Handle& pool) {
  MemPoolProps wanted{};
  wanted.alloc_type = kAllocationPinned;
  wanted.location = {kLocationDevice, device};
  MemPool made = nullptr;
  const gpu::Outcome outcome = told(api_.mem_pool_create(&made, &wanted));
  pool = number_of(made);
  return outcome;
}

gpu::Outcome HipDriver::destroy_pool(gpu::Handle pool) {
  return told(api_.mem_pool_destroy(native<MemPool>(pool)));
}

gpu::Outcome HipDriver::allocate_async(size_t bytes, gpu::Handle pool, StreamId stream,
                                       DeviceAddress& at) {
  void* made = nullptr;
  const gpu::Outcome outcome =
      told(api_.malloc_from_pool_async(&made, bytes, native<MemPool>(pool), native(stream)));
  at = DeviceAddress(number_of(made));
  return outcome;
}

gpu::Outcome HipDriver::free_async(DeviceAddress at, StreamId stream) {
  return told(api_.free_async(pointer(at), native(stream)));
}

gpu::Outcome HipDriver::pool_figure(gpu::Handle pool, gpu::PoolFigure figure, uint64_t& bytes) {
  return told(api_.mem_pool_get_attribute(native<MemPool>(pool), pool_attribute(figure), &bytes));
}

gpu::Outcome HipDriver::reset_pool_peak(gpu::Handle pool, gpu::PoolFigure figure) {
  uint64_t zero = 0;
  return told(api_.mem_pool_set_attribute(native<MemPool>(pool), pool_attribute(figure), &zero));
}

gpu::Outcome HipDriver::set_pool_threshold(gpu::Handle pool, uint64_t bytes) {
  return told(api_.mem_pool_set_attribute(native<MemPool>(pool), kPoolReleaseThreshold, &bytes));
}

gpu::Outcome HipDriver::trim_pool(gpu::Handle pool, size_t keep_bytes) {
  return told(api_.mem_pool_trim_to(native<MemPool>(pool), keep_bytes));
}

// --- captures and graphs ------------------------------------------------------------------------

gpu::Outcome HipDriver::begin_capture(StreamId stream, CaptureMode mode) {
  return told(api_.stream_begin_capture(native(stream), static_cast<int>(mode)));
}

gpu::Outcome HipDriver::end_capture(StreamId stream, gpu::Handle& graph) {
  Graph ended = nullptr;
  const gpu::Outcome outcome = told(api_.stream_end_capture(native(stream), &ended));
  graph = number_of(ended);
  return outcome;
}

gpu::Outcome HipDriver::capture_facts(StreamId stream, gpu::CaptureFacts& facts) {
  int status = kCaptureNone;
  Graph graph = nullptr;
  const GraphNode* tail = nullptr;
  size_t count = 0;
  unsigned long long id = 0;
  const gpu::Outcome outcome =
      told(api_.stream_get_capture_info(native(stream), &status, &id, &graph, &tail, &count));
  facts.id = id;
  if (!outcome.ok()) return outcome;
  facts.status = status_from(status);
  if (facts.status == CaptureStatus::kNone) return outcome;
  facts.graph = number_of(graph);
  // Of a capture that is invalidated, the rest is not told.
  for (size_t i = 0; facts.status == CaptureStatus::kActive && i < count; ++i) {
    facts.tail.push_back(NodeId(number_of(tail[i])));
  }
  return outcome;
}

gpu::Outcome HipDriver::node_dependencies(NodeId node, std::vector<NodeId>& before) {
  const GraphNode wanted = native<GraphNode>(node.value());
  size_t count = 0;
  const gpu::Outcome counted = told(api_.graph_node_get_dependencies(wanted, nullptr, &count));
  if (!counted.ok() || count == 0) return counted;
  std::vector<GraphNode> nodes(count);
  const gpu::Outcome read = told(api_.graph_node_get_dependencies(wanted, nodes.data(), &count));
  for (size_t i = 0; read.ok() && i < count && i < nodes.size(); ++i) {
    before.push_back(NodeId(number_of(nodes[i])));
  }
  return read;
}

gpu::Outcome HipDriver::exchange_capture_mode(CaptureMode& mode) {
  int exchanged = static_cast<int>(mode);
  const gpu::Outcome outcome = told(api_.thread_exchange_stream_capture_mode(&exchanged));
  mode = static_cast<CaptureMode>(exchanged);
  return outcome;
}

gpu::Outcome HipDriver::keep_with_graph(gpu::Handle graph, const gpu::GraphKeepsake& keepsake) {
  UserObject object = nullptr;
  const gpu::Outcome made = told(api_.user_object_create(&object, keepsake.thing, keepsake.drop, 1,
                                                         kUserObjectNoDestructorSync));
  if (!made.ok()) {
    keepsake.drop(keepsake.thing);
    return made;
  }
  const gpu::Outcome retained =
      told(api_.graph_retain_user_object(native<Graph>(graph), object, 1, kGraphUserObjectMove));
  if (!retained.ok()) (void)told(api_.user_object_release(object, 1));
  return retained;
}

gpu::Outcome HipDriver::make_launchable(gpu::Handle graph, gpu::Handle& launchable) {
  GraphExec made = nullptr;
  const gpu::Outcome outcome =
      told(api_.graph_instantiate_with_flags(&made, native<Graph>(graph), 0));
  launchable = number_of(made);
  return outcome;
}

gpu::Outcome HipDriver::launch_graph(gpu::Handle launchable, StreamId stream) {
  return told(api_.graph_launch(native<GraphExec>(launchable), native(stream)));
}

gpu::Outcome HipDriver::destroy_launchable(gpu::Handle launchable) {
  return told(api_.graph_exec_destroy(native<GraphExec>(launchable)));
}

gpu::Outcome HipDriver::destroy_graph(gpu::Handle graph) {
  return told(api_.graph_destroy(native<Graph>(graph)));
}

}  // namespace ashlar::hip
