// The neutral functions as CUDA's: streams, events, work, the pool, captures and graphs.
#include "device/cuda/cuda_driver.h"
#include "device/gpu/native.h"

namespace ashlar::cuda {
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

gpu::Outcome CudaDriver::create_stream(int priority, StreamId& stream) {
  Stream made = nullptr;
  const gpu::Outcome outcome =
      api_.stream_create_with_priority(&made, kStreamNonBlocking, -priority);
  stream = StreamId(number_of(made));
  return outcome;
}

gpu::Outcome CudaDriver::destroy_stream(StreamId stream) {
  return api_.stream_destroy(native(stream));
}

gpu::Outcome CudaDriver::query_stream(StreamId stream) { return api_.stream_query(native(stream)); }

gpu::Outcome CudaDriver::synchronize_stream(StreamId stream) {
  return api_.stream_synchronize(native(stream));
}

gpu::Outcome CudaDriver::synchronize_device() { return api_.ctx_synchronize(); }

gpu::Outcome CudaDriver::create_event(bool timing, gpu::Handle& event) {
  Event made = nullptr;
  const gpu::Outcome outcome = api_.event_create(&made, timing ? 0 : kEventDisableTiming);
  event = number_of(made);
  return outcome;
}

gpu::Outcome CudaDriver::destroy_event(gpu::Handle event) {
  return api_.event_destroy(native<Event>(event));
}

gpu::Outcome CudaDriver::record_event(gpu::Handle event, StreamId stream) {
  return api_.event_record(native<Event>(event), native(stream));
}

gpu::Outcome CudaDriver::query_event(gpu::Handle event) {
  return api_.event_query(native<Event>(event));
}

gpu::Outcome CudaDriver::synchronize_event(gpu::Handle event) {
  return api_.event_synchronize(native<Event>(event));
}

gpu::Outcome CudaDriver::wait_event(StreamId stream, gpu::Handle event) {
  return api_.stream_wait_event(native(stream), native<Event>(event), 0);
}

gpu::Outcome CudaDriver::elapsed_ms(gpu::Handle begin, gpu::Handle end, float& ms) {
  return api_.event_elapsed_time(&ms, native<Event>(begin), native<Event>(end));
}

// --- work ---------------------------------------------------------------------------------------

gpu::Outcome CudaDriver::copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                        StreamId stream) {
  return api_.memcpy_htod_async(to.value(), from, bytes, native(stream));
}

gpu::Outcome CudaDriver::copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) {
  return api_.memcpy_dtoh_async(to, from.value(), bytes, native(stream));
}

gpu::Outcome CudaDriver::copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) {
  return api_.memcpy_dtod_async(to.value(), from.value(), bytes, native(stream));
}

gpu::Outcome CudaDriver::copy_to_peer(const PeerCopy& copy, StreamId stream) {
  const Context to = contexts_[static_cast<size_t>(copy.to_device)];
  const Context from = contexts_[static_cast<size_t>(copy.from_device)];
  return api_.memcpy_peer_async(copy.to.value(), to, copy.from.value(), from, copy.bytes,
                                native(stream));
}

gpu::Outcome CudaDriver::fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) {
  return api_.memset_d8_async(at.value(), value, bytes, native(stream));
}

gpu::Outcome CudaDriver::call_host(StreamId stream, void (*function)(void*), void* argument) {
  return api_.launch_host_func(native(stream), function, argument);
}

// --- the stream-ordered pool --------------------------------------------------------------------

gpu::Outcome CudaDriver::create_pool(int device, gpu::Handle& pool) {
  MemPoolProps wanted{};
  wanted.alloc_type = kAllocationPinned;
  wanted.location = {kLocationDevice, device};
  MemoryPool made = nullptr;
  const gpu::Outcome outcome = api_.mem_pool_create(&made, &wanted);
  pool = number_of(made);
  return outcome;
}

gpu::Outcome CudaDriver::destroy_pool(gpu::Handle pool) {
  return api_.mem_pool_destroy(native<MemoryPool>(pool));
}

gpu::Outcome CudaDriver::allocate_async(size_t bytes, gpu::Handle pool, StreamId stream,
                                        DeviceAddress& at) {
  Pointer made = 0;
  const gpu::Outcome outcome =
      api_.mem_alloc_from_pool_async(&made, bytes, native<MemoryPool>(pool), native(stream));
  at = DeviceAddress(made);
  return outcome;
}

gpu::Outcome CudaDriver::free_async(DeviceAddress at, StreamId stream) {
  return api_.mem_free_async(at.value(), native(stream));
}

gpu::Outcome CudaDriver::pool_figure(gpu::Handle pool, gpu::PoolFigure figure, uint64_t& bytes) {
  return api_.mem_pool_get_attribute(native<MemoryPool>(pool), pool_attribute(figure), &bytes);
}

gpu::Outcome CudaDriver::reset_pool_peak(gpu::Handle pool, gpu::PoolFigure figure) {
  uint64_t zero = 0;
  return api_.mem_pool_set_attribute(native<MemoryPool>(pool), pool_attribute(figure), &zero);
}

gpu::Outcome CudaDriver::set_pool_threshold(gpu::Handle pool, uint64_t bytes) {
  return api_.mem_pool_set_attribute(native<MemoryPool>(pool), kPoolReleaseThreshold, &bytes);
}

gpu::Outcome CudaDriver::trim_pool(gpu::Handle pool, size_t keep_bytes) {
  return api_.mem_pool_trim_to(native<MemoryPool>(pool), keep_bytes);
}

// --- captures and graphs ------------------------------------------------------------------------

gpu::Outcome CudaDriver::begin_capture(StreamId stream, CaptureMode mode) {
  return api_.stream_begin_capture(native(stream), static_cast<int>(mode));
}

gpu::Outcome CudaDriver::end_capture(StreamId stream, gpu::Handle& graph) {
  Graph ended = nullptr;
  const gpu::Outcome outcome = api_.stream_end_capture(native(stream), &ended);
  graph = number_of(ended);
  return outcome;
}

gpu::Outcome CudaDriver::capture_facts(StreamId stream, gpu::CaptureFacts& facts) {
  int status = kCaptureNone;
  Graph graph = nullptr;
  const GraphNode* tail = nullptr;
  const GraphEdgeData* edges = nullptr;
  size_t count = 0;
  const bool has_edges = api_.stream_get_capture_info_v3.is_there();
  const gpu::Outcome outcome =
      has_edges ? api_.stream_get_capture_info_v3(native(stream), &status, &facts.id, &graph, &tail,
                                                  &edges, &count)
                : api_.stream_get_capture_info_v2(native(stream), &status, &facts.id, &graph, &tail,
                                                  &count);
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

gpu::Outcome CudaDriver::node_dependencies(NodeId node, std::vector<NodeId>& before) {
  const GraphNode wanted = native<GraphNode>(node.value());
  size_t count = 0;
  if (const gpu::Outcome counted = count_dependencies(wanted, count); !counted.ok()) {
    return counted;
  }
  std::vector<GraphNode> nodes(count);
  const gpu::Outcome read = read_dependencies(wanted, nodes);
  for (const GraphNode each : nodes) before.push_back(NodeId(number_of(each)));
  return read;
}

gpu::Outcome CudaDriver::count_dependencies(GraphNode node, size_t& count) const {
  if (api_.graph_node_get_dependencies_v2.is_there()) {
    return api_.graph_node_get_dependencies_v2(node, nullptr, nullptr, &count);
  }
  return api_.graph_node_get_dependencies(node, nullptr, &count);
}

// The graph may have grown meanwhile, but not the dependencies of a node that is in it.
gpu::Outcome CudaDriver::read_dependencies(GraphNode node, std::vector<GraphNode>& nodes) const {
  size_t count = nodes.size();
  gpu::Outcome read;
  if (count == 0) return read;
  if (api_.graph_node_get_dependencies_v2.is_there()) {
    std::vector<GraphEdgeData> edges(count);
    read = api_.graph_node_get_dependencies_v2(node, nodes.data(), edges.data(), &count);
  } else {
    read = api_.graph_node_get_dependencies(node, nodes.data(), &count);
  }
  nodes.resize(read.ok() && count < nodes.size() ? count : nodes.size());
  if (!read.ok()) nodes.clear();
  return read;
}

gpu::Outcome CudaDriver::exchange_capture_mode(CaptureMode& mode) {
  int exchanged = static_cast<int>(mode);
  const gpu::Outcome outcome = api_.thread_exchange_stream_capture_mode(&exchanged);
  mode = static_cast<CaptureMode>(exchanged);
  return outcome;
}

gpu::Outcome CudaDriver::keep_with_graph(gpu::Handle graph, const gpu::GraphKeepsake& keepsake) {
  UserObject object = nullptr;
  const gpu::Outcome made = api_.user_object_create(&object, keepsake.thing, keepsake.drop, 1,
                                                    kUserObjectNoDestructorSync);
  if (!made.ok()) {
    keepsake.drop(keepsake.thing);
    return made;
  }
  const gpu::Outcome retained =
      api_.graph_retain_user_object(native<Graph>(graph), object, 1, kGraphUserObjectMove);
  if (!retained.ok()) (void)api_.user_object_release(object, 1);
  return retained;
}

gpu::Outcome CudaDriver::make_launchable(gpu::Handle graph, gpu::Handle& launchable) {
  GraphExec made = nullptr;
  const gpu::Outcome outcome = api_.graph_instantiate_with_flags(&made, native<Graph>(graph), 0);
  launchable = number_of(made);
  return outcome;
}

gpu::Outcome CudaDriver::launch_graph(gpu::Handle launchable, StreamId stream) {
  return api_.graph_launch(native<GraphExec>(launchable), native(stream));
}

gpu::Outcome CudaDriver::destroy_launchable(gpu::Handle launchable) {
  return api_.graph_exec_destroy(native<GraphExec>(launchable));
}

gpu::Outcome CudaDriver::destroy_graph(gpu::Handle graph) {
  return api_.graph_destroy(native<Graph>(graph));
}

}  // namespace ashlar::cuda
