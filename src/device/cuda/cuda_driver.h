// The CUDA driver behind the neutral functions of gpu/driver.h.
#pragma once

#include <optional>
#include <vector>

#include "device/cuda/cuda_abi.h"
#include "device/cuda/nvml.h"
#include "device/driver_library.h"
#include "device/gpu/driver.h"

namespace ashlar::cuda {

class CudaDriver final : public gpu::Driver {
 public:
  // `monitor` fails where there is none; then its reason is what `processes` answers.
  CudaDriver(DriverLibrary library, const Api& api, Result<Nvml> monitor)
      : library_(std::move(library)), api_(api), monitor_(std::move(monitor)) {}

  std::string_view backend() const override { return "cuda"; }
  std::string error_text(int code) const override;

  gpu::Outcome device_count(int& count) override;
  gpu::Outcome look_at(int device, gpu::DeviceFacts& facts) override;
  gpu::Outcome use(int device) override;
  void leave_for_good(int device) override;
  gpu::Outcome enter(int device, gpu::Entered& entered) override;
  void leave(const gpu::Entered& entered) override;
  Result<std::vector<ProcessUse>> processes(const gpu::DeviceFacts& facts) override;
  gpu::Outcome greatest_priority(int& priority) override;
  gpu::Outcome memory_use(MemoryUse& use) override;

  gpu::Outcome allocate(size_t bytes, DeviceAddress& at) override;
  gpu::Outcome free(DeviceAddress at) override;
  gpu::Outcome locate(DeviceAddress at, gpu::Location& location) override;
  gpu::Outcome share(DeviceAddress at, AllocationHandle& handle) override;
  gpu::Outcome open_shared(const AllocationHandle& handle, DeviceAddress& at) override;
  gpu::Outcome close_shared(DeviceAddress at) override;

  gpu::Outcome reserve(const Reserve& wanted, DeviceAddress& at) override;
  gpu::Outcome free_addresses(AddressRange range) override;
  gpu::Outcome create(const Create& wanted, gpu::Handle& extent) override;
  gpu::Outcome release(gpu::Handle extent) override;
  gpu::Outcome map(AddressRange at, gpu::Handle extent) override;
  gpu::Outcome set_access(AddressRange range, int accessor, Access access) override;
  gpu::Outcome unmap(AddressRange range) override;
  gpu::Outcome export_fd(gpu::Handle extent, int& fd) override;
  gpu::Outcome import_fd(int fd, gpu::Handle& extent) override;
  gpu::Outcome export_fabric(gpu::Handle extent, FabricHandle& handle) override;
  gpu::Outcome import_fabric(const FabricHandle& handle, gpu::Handle& extent) override;

  gpu::Outcome can_access_peer(int device, int peer, bool& can) override;
  gpu::Outcome enable_peer_access(int peer) override;
  gpu::Outcome disable_peer_access(int peer) override;

  gpu::Outcome allocate_host(size_t bytes, void*& memory) override;
  gpu::Outcome free_host(void* memory) override;
  gpu::Outcome register_host(void* memory, size_t bytes) override;
  gpu::Outcome unregister_host(void* memory) override;

  gpu::Outcome create_stream(int priority, StreamId& stream) override;
  gpu::Outcome destroy_stream(StreamId stream) override;
  gpu::Outcome query_stream(StreamId stream) override;
  gpu::Outcome synchronize_stream(StreamId stream) override;
  gpu::Outcome synchronize_device() override;
  gpu::Outcome create_event(bool timing, gpu::Handle& event) override;
  gpu::Outcome destroy_event(gpu::Handle event) override;
  gpu::Outcome record_event(gpu::Handle event, StreamId stream) override;
  gpu::Outcome query_event(gpu::Handle event) override;
  gpu::Outcome synchronize_event(gpu::Handle event) override;
  gpu::Outcome wait_event(StreamId stream, gpu::Handle event) override;
  gpu::Outcome elapsed_ms(gpu::Handle begin, gpu::Handle end, float& ms) override;

  gpu::Outcome copy_to_device(DeviceAddress to, const void* from, size_t bytes,
                              StreamId stream) override;
  gpu::Outcome copy_to_host(void* to, DeviceAddress from, size_t bytes, StreamId stream) override;
  gpu::Outcome copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamId stream) override;
  gpu::Outcome copy_to_peer(const PeerCopy& copy, StreamId stream) override;
  gpu::Outcome fill(DeviceAddress at, uint8_t value, size_t bytes, StreamId stream) override;
  gpu::Outcome call_host(StreamId stream, void (*function)(void*), void* argument) override;

  gpu::Outcome create_pool(int device, gpu::Handle& pool) override;
  gpu::Outcome destroy_pool(gpu::Handle pool) override;
  gpu::Outcome allocate_async(size_t bytes, gpu::Handle pool, StreamId stream,
                              DeviceAddress& at) override;
  gpu::Outcome free_async(DeviceAddress at, StreamId stream) override;
  gpu::Outcome pool_figure(gpu::Handle pool, gpu::PoolFigure figure, uint64_t& bytes) override;
  gpu::Outcome reset_pool_peak(gpu::Handle pool, gpu::PoolFigure figure) override;
  gpu::Outcome set_pool_threshold(gpu::Handle pool, uint64_t bytes) override;
  gpu::Outcome trim_pool(gpu::Handle pool, size_t keep_bytes) override;

  gpu::Outcome begin_capture(StreamId stream, CaptureMode mode) override;
  gpu::Outcome end_capture(StreamId stream, gpu::Handle& graph) override;
  gpu::Outcome capture_facts(StreamId stream, gpu::CaptureFacts& facts) override;
  gpu::Outcome node_dependencies(NodeId node, std::vector<NodeId>& before) override;
  gpu::Outcome exchange_capture_mode(CaptureMode& mode) override;
  gpu::Outcome keep_with_graph(gpu::Handle graph, const gpu::GraphKeepsake& keepsake) override;
  gpu::Outcome make_launchable(gpu::Handle graph, gpu::Handle& launchable) override;
  gpu::Outcome launch_graph(gpu::Handle launchable, StreamId stream) override;
  gpu::Outcome destroy_launchable(gpu::Handle launchable) override;
  gpu::Outcome destroy_graph(gpu::Handle graph) override;

 private:
  gpu::Outcome count_dependencies(GraphNode node, size_t& count) const;
  gpu::Outcome read_dependencies(GraphNode node, std::vector<GraphNode>& nodes) const;

  const DriverLibrary library_;
  const Api api_;
  const Result<Nvml> monitor_;
  // By device. Each is set by `use` before anything else is asked of the device.
  std::vector<Context> contexts_;
  std::vector<bool> has_rdma_;
};

}  // namespace ashlar::cuda
