// SPDX-License-Identifier: Apache-2.0
//
// Calls the driver functions for streams, events, work, the stream-ordered pool, captures and
// graphs.
#include "device/gpu/common_driver.h"
#include "device/gpu/driver_errors.h"

namespace ashlar::gpu {
namespace {

int pool_attribute(PoolStat stat) {
  switch (stat) {
    case PoolStat::kReserved: return abi::kPoolReservedCurrent;
    case PoolStat::kReservedPeak: return abi::kPoolReservedHigh;
    case PoolStat::kUsed: return abi::kPoolUsedCurrent;
    case PoolStat::kUsedPeak: return abi::kPoolUsedHigh;
  }
  return abi::kPoolUsedCurrent;
}

CaptureStatus status_from(int capture_status) {
  if (capture_status == abi::kCaptureNone) return CaptureStatus::kNone;
  return capture_status == abi::kCaptureActive ? CaptureStatus::kActive
                                               : CaptureStatus::kInvalidated;
}

}  // namespace

// --- streams and events

DriverResult CommonDriver::create_stream(int priority, StreamId& stream) {
  abi::Stream created = nullptr;
  const DriverResult result =
      api_.stream.create_with_priority(&created, abi::kStreamNonBlocking, -priority);
  stream = StreamId(handle_of(created));
  return result;
}

DriverResult CommonDriver::destroy_stream(StreamId stream) {
  return api_.stream.destroy(native(stream));
}

DriverResult CommonDriver::query_stream(StreamId stream) {
  return api_.stream.query(native(stream));
}

DriverResult CommonDriver::synchronize_stream(StreamId stream) {
  return api_.stream.synchronize(native(stream));
}

DriverResult CommonDriver::synchronize_device() { return api_.device.synchronize(); }

DriverResult CommonDriver::create_event(bool timing, Handle& event) {
  abi::Event created = nullptr;
  const DriverResult result = api_.event.create(&created, timing ? 0 : abi::kEventDisableTiming);
  event = handle_of(created);
  return result;
}

DriverResult CommonDriver::destroy_event(Handle event) {
  return api_.event.destroy(native<abi::Event>(event));
}

DriverResult CommonDriver::record_event(Handle event, StreamId stream) {
  return api_.event.record(native<abi::Event>(event), native(stream));
}

DriverResult CommonDriver::query_event(Handle event) {
  return api_.event.query(native<abi::Event>(event));
}

DriverResult CommonDriver::synchronize_event(Handle event) {
  return api_.event.synchronize(native<abi::Event>(event));
}

DriverResult CommonDriver::wait_event(StreamId stream, Handle event) {
  return api_.stream.wait_event(native(stream), native<abi::Event>(event), 0);
}

DriverResult CommonDriver::elapsed_ms(Handle begin, Handle end, float& ms) {
  return api_.event.elapsed_time(&ms, native<abi::Event>(begin), native<abi::Event>(end));
}

// --- work

DriverResult CommonDriver::copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                                          StreamId stream) {
  return api_.stream.memcpy_htod_async(to.value(), from, bytes, native(stream));
}

DriverResult CommonDriver::copy_to_host(void* to, DeviceAddress from, size_t bytes,
                                        StreamId stream) {
  return api_.stream.memcpy_dtoh_async(to, from.value(), bytes, native(stream));
}

DriverResult CommonDriver::copy(DeviceAddress to, DeviceAddress from, size_t bytes,
                                StreamId stream) {
  return api_.stream.memcpy_dtod_async(to.value(), from.value(), bytes, native(stream));
}

DriverResult CommonDriver::fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) {
  return api_.stream.memset_d8_async(at.value(), value, bytes, native(stream));
}

DriverResult CommonDriver::call_host(StreamId stream, void (*function)(void*), void* argument) {
  return api_.stream.launch_host_func(native(stream), function, argument);
}

// --- kernels

DriverResult CommonDriver::load_kernels(const void* /*image*/, Handle& /*kernels*/) {
  return {"loading kernels", kNotSupported};
}

DriverResult CommonDriver::unload_kernels(Handle /*kernels*/) {
  return {"unloading kernels", kNotSupported};
}

DriverResult CommonDriver::find_kernel(Handle /*kernels*/, const char* /*name*/,
                                       Handle& /*kernel*/) {
  return {"finding a kernel", kNotSupported};
}

DriverResult CommonDriver::launch(const LaunchRequest& /*launch*/, StreamId /*stream*/) {
  return {"launching a kernel", kNotSupported};
}

// --- the stream-ordered pool

DriverResult CommonDriver::create_pool(int device, Handle& pool) {
  abi::MemPoolProps wanted{};
  wanted.alloc_type = abi::kAllocationPinned;
  wanted.location = {abi::kLocationDevice, device};
  abi::MemoryPool created = nullptr;
  const DriverResult result = api_.pool.create(&created, &wanted);
  pool = handle_of(created);
  return result;
}

DriverResult CommonDriver::destroy_pool(Handle pool) {
  return api_.pool.destroy(native<abi::MemoryPool>(pool));
}

DriverResult CommonDriver::allocate_async(size_t bytes, Handle pool, StreamId stream,
                                          DeviceAddress& at) {
  abi::Pointer created = 0;
  const DriverResult result =
      api_.pool.alloc_async(&created, bytes, native<abi::MemoryPool>(pool), native(stream));
  at = DeviceAddress(created);
  return result;
}

DriverResult CommonDriver::free_async(DeviceAddress at, StreamId stream) {
  return api_.pool.free_async(at.value(), native(stream));
}

DriverResult CommonDriver::pool_stat(Handle pool, PoolStat stat, uint64_t& bytes) {
  return api_.pool.get_attribute(native<abi::MemoryPool>(pool), pool_attribute(stat), &bytes);
}

DriverResult CommonDriver::reset_pool_peak(Handle pool, PoolStat stat) {
  uint64_t zero = 0;
  return api_.pool.set_attribute(native<abi::MemoryPool>(pool), pool_attribute(stat), &zero);
}

DriverResult CommonDriver::set_pool_threshold(Handle pool, uint64_t bytes) {
  return api_.pool.set_attribute(native<abi::MemoryPool>(pool), abi::kPoolReleaseThreshold, &bytes);
}

DriverResult CommonDriver::trim_pool(Handle pool, size_t keep_bytes) {
  return api_.pool.trim_to(native<abi::MemoryPool>(pool), keep_bytes);
}

// --- captures and graphs

DriverResult CommonDriver::begin_capture(StreamId stream, CaptureMode mode) {
  return api_.capture.begin(native(stream), static_cast<int>(mode));
}

DriverResult CommonDriver::end_capture(StreamId stream, Handle& graph) {
  abi::Graph ended = nullptr;
  const DriverResult result = api_.capture.end(native(stream), &ended);
  graph = handle_of(ended);
  return result;
}

DriverResult CommonDriver::capture_info(StreamId stream, CaptureInfo& info) {
  int status = abi::kCaptureNone;
  abi::Graph graph = nullptr;
  const abi::GraphNode* tail = nullptr;
  const abi::GraphEdgeData* edges = nullptr;
  size_t count = 0;
  const bool has_edges = api_.capture.get_info_v3.is_loaded();
  const DriverResult result =
      has_edges
          ? api_.capture.get_info_v3(native(stream), &status, &info.id, &graph, &tail, &edges,
                                     &count)
          : api_.capture.get_info_v2(native(stream), &status, &info.id, &graph, &tail, &count);
  if (!result.ok()) return result;
  info.status = status_from(status);
  if (info.status == CaptureStatus::kNone) return result;
  info.graph = handle_of(graph);
  // Drivers report no nodes for an invalidated capture.
  for (size_t i = 0; info.status == CaptureStatus::kActive && i < count; ++i) {
    info.tail.push_back(NodeId(handle_of(tail[i])));
  }
  return result;
}

DriverResult CommonDriver::node_dependencies(NodeId node, std::vector<NodeId>& dependencies) {
  const abi::GraphNode wanted = native<abi::GraphNode>(node.value());
  size_t count = 0;
  if (const DriverResult counted = count_dependencies(wanted, count); !counted.ok()) {
    return counted;
  }
  std::vector<abi::GraphNode> nodes(count);
  const DriverResult read = read_dependencies(wanted, nodes);
  for (const abi::GraphNode each : nodes) dependencies.push_back(NodeId(handle_of(each)));
  return read;
}

DriverResult CommonDriver::count_dependencies(abi::GraphNode node, size_t& count) const {
  if (api_.graph.node_get_dependencies_v2.is_loaded()) {
    return api_.graph.node_get_dependencies_v2(node, nullptr, nullptr, &count);
  }
  return api_.graph.node_get_dependencies(node, nullptr, &count);
}

// Reads the dependencies into `nodes`, whose size is the result of count_dependencies. That size is
// still correct, because the dependencies of an existing node do not change.
DriverResult CommonDriver::read_dependencies(abi::GraphNode node,
                                             std::vector<abi::GraphNode>& nodes) const {
  size_t count = nodes.size();
  DriverResult read;
  if (count == 0) return read;
  if (api_.graph.node_get_dependencies_v2.is_loaded()) {
    std::vector<abi::GraphEdgeData> edges(count);
    read = api_.graph.node_get_dependencies_v2(node, nodes.data(), edges.data(), &count);
  } else {
    read = api_.graph.node_get_dependencies(node, nodes.data(), &count);
  }
  nodes.resize(read.ok() && count < nodes.size() ? count : nodes.size());
  if (!read.ok()) nodes.clear();
  return read;
}

DriverResult CommonDriver::exchange_capture_mode(CaptureMode& mode) {
  int exchanged = static_cast<int>(mode);
  const DriverResult result = api_.capture.exchange_thread_mode(&exchanged);
  mode = static_cast<CaptureMode>(exchanged);
  return result;
}

DriverResult CommonDriver::attach_user_object(Handle graph, const GraphUserObject& owned) {
  abi::UserObject object = nullptr;
  const DriverResult created = api_.graph.user_object_create(&object, owned.object, owned.destroy,
                                                             1, abi::kUserObjectNoDestructorSync);
  if (!created.ok()) {
    owned.destroy(owned.object);
    return created;
  }
  const DriverResult retained = api_.graph.retain_user_object(native<abi::Graph>(graph), object, 1,
                                                              abi::kGraphUserObjectMove);
  if (!retained.ok()) (void)api_.graph.user_object_release(object, 1);
  return retained;
}

DriverResult CommonDriver::instantiate_graph(Handle graph, Handle& exec) {
  abi::GraphExec created = nullptr;
  const DriverResult result =
      api_.graph.instantiate_with_flags(&created, native<abi::Graph>(graph), 0);
  exec = handle_of(created);
  return result;
}

DriverResult CommonDriver::launch_graph(Handle exec, StreamId stream) {
  return api_.graph.launch(native<abi::GraphExec>(exec), native(stream));
}

DriverResult CommonDriver::destroy_graph_exec(Handle exec) {
  return api_.graph.exec_destroy(native<abi::GraphExec>(exec));
}

DriverResult CommonDriver::destroy_graph(Handle graph) {
  return api_.graph.destroy(native<abi::Graph>(graph));
}

}  // namespace ashlar::gpu
