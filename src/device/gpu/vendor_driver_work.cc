// SPDX-License-Identifier: Apache-2.0
//
// The neutral functions that both vendors have: streams, events, work, the pool, captures and
// graphs.
#include "device/gpu/driver_errors.h"
#include "device/gpu/native.h"
#include "device/gpu/vendor_driver.h"

namespace ashlar::gpu {
namespace {

int pool_attribute(PoolFigure figure) {
  switch (figure) {
    case PoolFigure::kReserved: return abi::kPoolReservedCurrent;
    case PoolFigure::kReservedPeak: return abi::kPoolReservedHigh;
    case PoolFigure::kUsed: return abi::kPoolUsedCurrent;
    case PoolFigure::kUsedPeak: return abi::kPoolUsedHigh;
  }
  return abi::kPoolUsedCurrent;
}

CaptureStatus status_from(int capture_status) {
  if (capture_status == abi::kCaptureNone) return CaptureStatus::kNone;
  return capture_status == abi::kCaptureActive ? CaptureStatus::kActive
                                               : CaptureStatus::kInvalidated;
}

}  // namespace

// --- streams and events -------------------------------------------------------------------------

Outcome VendorDriver::create_stream(int priority, StreamId& stream) {
  abi::Stream made = nullptr;
  const Outcome outcome =
      api_.stream_create_with_priority(&made, abi::kStreamNonBlocking, -priority);
  stream = StreamId(number_of(made));
  return outcome;
}

Outcome VendorDriver::destroy_stream(StreamId stream) {
  return api_.stream_destroy(native(stream));
}

Outcome VendorDriver::query_stream(StreamId stream) { return api_.stream_query(native(stream)); }

Outcome VendorDriver::synchronize_stream(StreamId stream) {
  return api_.stream_synchronize(native(stream));
}

Outcome VendorDriver::synchronize_device() { return api_.synchronize(); }

Outcome VendorDriver::create_event(bool timing, Handle& event) {
  abi::Event made = nullptr;
  const Outcome outcome = api_.event_create(&made, timing ? 0 : abi::kEventDisableTiming);
  event = number_of(made);
  return outcome;
}

Outcome VendorDriver::destroy_event(Handle event) {
  return api_.event_destroy(native<abi::Event>(event));
}

Outcome VendorDriver::record_event(Handle event, StreamId stream) {
  return api_.event_record(native<abi::Event>(event), native(stream));
}

Outcome VendorDriver::query_event(Handle event) {
  return api_.event_query(native<abi::Event>(event));
}

Outcome VendorDriver::synchronize_event(Handle event) {
  return api_.event_synchronize(native<abi::Event>(event));
}

Outcome VendorDriver::wait_event(StreamId stream, Handle event) {
  return api_.stream_wait_event(native(stream), native<abi::Event>(event), 0);
}

Outcome VendorDriver::elapsed_ms(Handle begin, Handle end, float& ms) {
  return api_.event_elapsed_time(&ms, native<abi::Event>(begin), native<abi::Event>(end));
}

// --- work ---------------------------------------------------------------------------------------

Outcome VendorDriver::copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                     StreamId stream) {
  return api_.memcpy_htod_async(to.value(), from, bytes, native(stream));
}

Outcome VendorDriver::copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) {
  return api_.memcpy_dtoh_async(to, from.value(), bytes, native(stream));
}

Outcome VendorDriver::copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) {
  return api_.memcpy_dtod_async(to.value(), from.value(), bytes, native(stream));
}

Outcome VendorDriver::fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) {
  return api_.memset_d8_async(at.value(), value, bytes, native(stream));
}

Outcome VendorDriver::call_host(StreamId stream, void (*function)(void*), void* argument) {
  return api_.launch_host_func(native(stream), function, argument);
}

// --- kernels ------------------------------------------------------------------------------------

Outcome VendorDriver::load_kernels(const void* /*image*/, Handle& /*kernels*/) {
  return {"loading kernels", kNotSupported};
}

Outcome VendorDriver::unload_kernels(Handle /*kernels*/) {
  return {"unloading kernels", kNotSupported};
}

Outcome VendorDriver::find_kernel(Handle /*kernels*/, const char* /*name*/, Handle& /*kernel*/) {
  return {"finding a kernel", kNotSupported};
}

Outcome VendorDriver::launch(const Launch& /*launch*/, StreamId /*stream*/) {
  return {"launching a kernel", kNotSupported};
}

// --- the stream-ordered pool --------------------------------------------------------------------

Outcome VendorDriver::create_pool(int device, Handle& pool) {
  abi::MemPoolProps wanted{};
  wanted.alloc_type = abi::kAllocationPinned;
  wanted.location = {abi::kLocationDevice, device};
  abi::MemoryPool made = nullptr;
  const Outcome outcome = api_.mem_pool_create(&made, &wanted);
  pool = number_of(made);
  return outcome;
}

Outcome VendorDriver::destroy_pool(Handle pool) {
  return api_.mem_pool_destroy(native<abi::MemoryPool>(pool));
}

Outcome VendorDriver::allocate_async(size_t bytes, Handle pool, StreamId stream,
                                     DeviceAddress& at) {
  abi::Pointer made = 0;
  const Outcome outcome =
      api_.mem_alloc_from_pool_async(&made, bytes, native<abi::MemoryPool>(pool), native(stream));
  at = DeviceAddress(made);
  return outcome;
}

Outcome VendorDriver::free_async(DeviceAddress at, StreamId stream) {
  return api_.mem_free_async(at.value(), native(stream));
}

Outcome VendorDriver::pool_figure(Handle pool, PoolFigure figure, uint64_t& bytes) {
  return api_.mem_pool_get_attribute(native<abi::MemoryPool>(pool), pool_attribute(figure), &bytes);
}

Outcome VendorDriver::reset_pool_peak(Handle pool, PoolFigure figure) {
  uint64_t zero = 0;
  return api_.mem_pool_set_attribute(native<abi::MemoryPool>(pool), pool_attribute(figure), &zero);
}

Outcome VendorDriver::set_pool_threshold(Handle pool, uint64_t bytes) {
  return api_.mem_pool_set_attribute(native<abi::MemoryPool>(pool), abi::kPoolReleaseThreshold,
                                     &bytes);
}

Outcome VendorDriver::trim_pool(Handle pool, size_t keep_bytes) {
  return api_.mem_pool_trim_to(native<abi::MemoryPool>(pool), keep_bytes);
}

// --- captures and graphs ------------------------------------------------------------------------

Outcome VendorDriver::begin_capture(StreamId stream, CaptureMode mode) {
  return api_.stream_begin_capture(native(stream), static_cast<int>(mode));
}

Outcome VendorDriver::end_capture(StreamId stream, Handle& graph) {
  abi::Graph ended = nullptr;
  const Outcome outcome = api_.stream_end_capture(native(stream), &ended);
  graph = number_of(ended);
  return outcome;
}

Outcome VendorDriver::capture_facts(StreamId stream, CaptureFacts& facts) {
  int status = abi::kCaptureNone;
  abi::Graph graph = nullptr;
  const abi::GraphNode* tail = nullptr;
  const abi::GraphEdgeData* edges = nullptr;
  size_t count = 0;
  const bool has_edges = api_.stream_get_capture_info_v3.is_there();
  const Outcome outcome = has_edges
                              ? api_.stream_get_capture_info_v3(native(stream), &status, &facts.id,
                                                                &graph, &tail, &edges, &count)
                              : api_.stream_get_capture_info_v2(native(stream), &status, &facts.id,
                                                                &graph, &tail, &count);
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

Outcome VendorDriver::node_dependencies(NodeId node, std::vector<NodeId>& before) {
  const abi::GraphNode wanted = native<abi::GraphNode>(node.value());
  size_t count = 0;
  if (const Outcome counted = count_dependencies(wanted, count); !counted.ok()) {
    return counted;
  }
  std::vector<abi::GraphNode> nodes(count);
  const Outcome read = read_dependencies(wanted, nodes);
  for (const abi::GraphNode each : nodes) before.push_back(NodeId(number_of(each)));
  return read;
}

Outcome VendorDriver::count_dependencies(abi::GraphNode node, size_t& count) const {
  if (api_.graph_node_get_dependencies_v2.is_there()) {
    return api_.graph_node_get_dependencies_v2(node, nullptr, nullptr, &count);
  }
  return api_.graph_node_get_dependencies(node, nullptr, &count);
}

// The graph may have grown meanwhile, but not the dependencies of a node that is in it.
Outcome VendorDriver::read_dependencies(abi::GraphNode node,
                                        std::vector<abi::GraphNode>& nodes) const {
  size_t count = nodes.size();
  Outcome read;
  if (count == 0) return read;
  if (api_.graph_node_get_dependencies_v2.is_there()) {
    std::vector<abi::GraphEdgeData> edges(count);
    read = api_.graph_node_get_dependencies_v2(node, nodes.data(), edges.data(), &count);
  } else {
    read = api_.graph_node_get_dependencies(node, nodes.data(), &count);
  }
  nodes.resize(read.ok() && count < nodes.size() ? count : nodes.size());
  if (!read.ok()) nodes.clear();
  return read;
}

Outcome VendorDriver::exchange_capture_mode(CaptureMode& mode) {
  int exchanged = static_cast<int>(mode);
  const Outcome outcome = api_.thread_exchange_stream_capture_mode(&exchanged);
  mode = static_cast<CaptureMode>(exchanged);
  return outcome;
}

Outcome VendorDriver::keep_with_graph(Handle graph, const GraphKeepsake& keepsake) {
  abi::UserObject object = nullptr;
  const Outcome made = api_.user_object_create(&object, keepsake.thing, keepsake.drop, 1,
                                               abi::kUserObjectNoDestructorSync);
  if (!made.ok()) {
    keepsake.drop(keepsake.thing);
    return made;
  }
  const Outcome retained = api_.graph_retain_user_object(native<abi::Graph>(graph), object, 1,
                                                         abi::kGraphUserObjectMove);
  if (!retained.ok()) (void)api_.user_object_release(object, 1);
  return retained;
}

Outcome VendorDriver::make_launchable(Handle graph, Handle& launchable) {
  abi::GraphExec made = nullptr;
  const Outcome outcome = api_.graph_instantiate_with_flags(&made, native<abi::Graph>(graph), 0);
  launchable = number_of(made);
  return outcome;
}

Outcome VendorDriver::launch_graph(Handle launchable, StreamId stream) {
  return api_.graph_launch(native<abi::GraphExec>(launchable), native(stream));
}

Outcome VendorDriver::destroy_launchable(Handle launchable) {
  return api_.graph_exec_destroy(native<abi::GraphExec>(launchable));
}

Outcome VendorDriver::destroy_graph(Handle graph) {
  return api_.graph_destroy(native<abi::Graph>(graph));
}

}  // namespace ashlar::gpu
