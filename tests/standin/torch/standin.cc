// SPDX-License-Identifier: Apache-2.0
//
// Implements the stand-in for PyTorch: records calls, and returns what tests have set.
#include "standin/torch/standin.h"

#include <cstdlib>
#include <iomanip>

StandinState& standin_state() {
  static StandinState state;
  return state;
}

int STANDIN_RUNTIME(MemcpyAsync)(void*, const void*, size_t, int, STANDIN_STREAM) {
  standin_state().copies.push_back("async");
  return 0;
}
int STANDIN_RUNTIME(MemcpyPeerAsync)(void*, int, const void*, int, size_t, STANDIN_STREAM) {
  standin_state().copies.push_back("peer");
  return 0;
}
int STANDIN_RUNTIME(Memcpy)(void*, const void*, size_t, int) {
  standin_state().copies.push_back("blocking");
  return 0;
}
int STANDIN_RUNTIME(MemGetInfo)(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = standin_state().free_bytes;
  *total_bytes = standin_state().total_bytes;
  return 0;
}

namespace c10 {
namespace {

std::map<DeviceType, Allocator*>& allocators() {
  static std::map<DeviceType, Allocator*> by_type;
  return by_type;
}

class FunctionCallback final : public FreeMemoryCallback {
 public:
  explicit FunctionCallback(std::function<bool()> function) : function_(std::move(function)) {}
  bool Execute() override { return function_(); }

 private:
  const std::function<bool()> function_;
};

FreeMemoryRegistry* free_memory_registry() {
  static FreeMemoryRegistry registry;
  return &registry;
}

// Inserts nothing: threads call this concurrently.
Stream stream_of(DeviceIndex device) {
  const auto& streams = standin_state().streams;
  const auto stream = streams.find(device);
  return {device, stream == streams.end() ? nullptr : stream->second};
}

}  // namespace

void SetAllocator(DeviceType type, Allocator* allocator, uint8_t) {
  allocators()[type] = allocator;
}
Allocator* GetAllocator(DeviceType type) {
  const auto allocator = allocators().find(type);
  return allocator == allocators().end() ? nullptr : allocator->second;
}

bool memoryProfilingEnabled() { return standin_state().is_profiling; }
void reportMemoryUsageToProfiler(void* memory, int64_t bytes, size_t allocated, size_t reserved,
                                 Device) {
  standin_state().reports.push_back({memory, bytes, allocated, reserved});
}
void reportOutOfMemoryToProfiler(int64_t bytes, size_t, size_t, Device) {
  standin_state().oom_reports.push_back(bytes);
}

approx_time_t getApproximateTime() { return 12345; }

const impl::PyInterpreter* impl::GPUTrace::get_trace() { return standin_state().interpreter; }

std::string CachingAllocator::format_size(uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

std::vector<std::string> FreeMemoryRegistry::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, callback] : standin_state().callbacks) keys.push_back(key);
  return keys;
}
std::unique_ptr<FreeMemoryCallback> FreeMemoryRegistry::Create(const std::string& key) const {
  return std::make_unique<FunctionCallback>(standin_state().callbacks.at(key));
}

#if defined(STANDIN_HIP_NAMES)
FreeMemoryRegistry* FreeHipMemoryCallbacksRegistry() { return free_memory_registry(); }
namespace hip {
StandinStream getCurrentHIPStream(DeviceIndex device) { return StandinStream(stream_of(device)); }
std::atomic<HIPCachingAllocator::StandinAllocator*> HIPCachingAllocator::allocator{nullptr};
#else
FreeMemoryRegistry* FreeCudaMemoryCallbacksRegistry() { return free_memory_registry(); }
namespace cuda {
StandinStream getCurrentCUDAStream(DeviceIndex device) { return StandinStream(stream_of(device)); }
std::atomic<CUDACachingAllocator::StandinAllocator*> CUDACachingAllocator::allocator{nullptr};
#endif
DeviceIndex current_device() { return standin_state().current_device; }
int GetDevice(DeviceIndex* device) {
  *device = standin_state().current_device;
  return 0;
}
}  // namespace hip or cuda
}  // namespace c10

// For test_native.py, which calls PyTorch's allocator through ctypes.
extern "C" {
__attribute__((visibility("default"))) void* standin_raw_alloc(size_t bytes);
__attribute__((visibility("default"))) void standin_raw_delete(void* memory);
__attribute__((visibility("default"))) int64_t standin_allocated_bytes();
// Frees the memory when the process exits, after thread-local objects, like static tensors do.
__attribute__((visibility("default"))) void standin_free_at_exit(void* memory);
}

#if !defined(USE_ROCM)
namespace {
auto& pytorch_allocator() { return *c10::cuda::CUDACachingAllocator::allocator.load(); }
}  // namespace

// PyTorch initializes its allocator when it first uses the GPU.
void* standin_raw_alloc(size_t bytes) {
  pytorch_allocator().init(1);
  return pytorch_allocator().raw_alloc(bytes);
}
void standin_raw_delete(void* memory) { pytorch_allocator().raw_delete(memory); }
void standin_free_at_exit(void* memory) {
  static void* freed_at_exit = nullptr;
  freed_at_exit = memory;
  std::atexit([] { standin_raw_delete(freed_at_exit); });
}
int64_t standin_allocated_bytes() {
  return pytorch_allocator().getDeviceStats(0).allocated_bytes[0].current;
}
#endif
