// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's allocator interface under names that are the same for CUDA and ROCm, and all code that
// depends on the version of PyTorch, from 2.6 to 2.11.
//
// Functions differ by signature. NativeAllocator declares every signature without `override`, so
// that it overrides those that the installed version has:
//   emptyCache()                        2.6, 2.7; with a pool's id from 2.8
//   snapshot()                          2.6, 2.7; with a pool's id from 2.8; also with
//                                       include_traces in 2.11
//   recordHistory(4 arguments)          2.6, 2.7; clearHistory from 2.8; skip_actions from 2.10
//   createOrIncrefPool(pointer)         2.8; with a shared_ptr from 2.9
//   ensureExistsAndIncrefPool           2.7 to 2.9
//   setUseOnOOM(device, pool)           2.8, 2.9; with a bool from 2.10
//   getExpandableSegmentSizes           from 2.10
//   getMemoryFraction, compile contexts from 2.8; user metadata from 2.10
//   getContextForPointer                after 2.10
// The base class is c10::Allocator up to 2.8, and c10::DeviceAllocator from 2.9.
//
// Structs differ by fields: compile_context_, user_metadata_ and mempool_ of trace entries,
// registration_counter of segments, external_annotations, and the fields of the settings. The
// functions below set a field if the installed version has it.
//
// PyTorch for ROCm is translated from the CUDA sources by hipify. Version 1 of hipify renames
// namespaces and classes as well. Version 2, for which PyTorch defines HIPIFY_V2, renames only
// files and calls of the runtime.
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 6 || TORCH_VERSION_MINOR > 11
#error "this PyTorch is not supported (expected 2.6 to 2.11)"
#endif

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/util/ApproximateClock.h>
#if defined(USE_ROCM)
#include <c10/hip/HIPAllocatorConfig.h>
#include <c10/hip/HIPCachingAllocator.h>
#include <c10/hip/HIPFunctions.h>
#include <c10/hip/HIPStream.h>
#else
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ashlar::torch::native {

// Names that are the same for CUDA and HIP.

#if defined(USE_ROCM)
#define ASHLAR_GPU_CALL(name) hip##name
using GpuStreamHandle = hipStream_t;
using GpuError = hipError_t;
inline constexpr const char* kVendor = "HIP";
#else
#define ASHLAR_GPU_CALL(name) cuda##name
using GpuStreamHandle = cudaStream_t;
using GpuError = cudaError_t;
inline constexpr const char* kVendor = "CUDA";
#endif

#if defined(USE_ROCM) && !defined(HIPIFY_V2)
namespace caching = c10::hip::HIPCachingAllocator;
using GpuAllocator = caching::HIPAllocator;
using GpuAllocatorConfig = caching::HIPAllocatorConfig;
using GpuStream = c10::hip::HIPStream;

inline void check_call(GpuError result) { C10_HIP_CHECK(result); }
inline GpuStream current_stream(c10::DeviceIndex device) {
  return c10::hip::getCurrentHIPStream(device);
}
inline c10::DeviceIndex current_device() {
  c10::DeviceIndex device = 0;
  check_call(c10::hip::GetDevice(&device));
  return device;
}
inline auto* free_memory_callbacks() { return c10::FreeHipMemoryCallbacksRegistry(); }
#else
namespace caching = c10::cuda::CUDACachingAllocator;
using GpuAllocator = caching::CUDAAllocator;
using GpuAllocatorConfig = caching::CUDAAllocatorConfig;
using GpuStream = c10::cuda::CUDAStream;

inline void check_call(GpuError result) { C10_CUDA_CHECK(result); }
inline GpuStream current_stream(c10::DeviceIndex device) {
  return c10::cuda::getCurrentCUDAStream(device);
}
inline c10::DeviceIndex current_device() {
  c10::DeviceIndex device = 0;
  check_call(c10::cuda::GetDevice(&device));
  return device;
}
inline auto* free_memory_callbacks() { return c10::FreeCudaMemoryCallbacksRegistry(); }
#endif

inline GpuError copy_async(void* to, const void* from, size_t bytes, GpuStreamHandle stream) {
  return ASHLAR_GPU_CALL(MemcpyAsync)(to, from, bytes, ASHLAR_GPU_CALL(MemcpyDeviceToDevice),
                                      stream);
}
inline GpuError copy_peer_async(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, GpuStreamHandle stream) {
  return ASHLAR_GPU_CALL(MemcpyPeerAsync)(to, to_device, from, from_device, bytes, stream);
}
inline void copy_blocking(void* to, const void* from, size_t bytes) {
  check_call(ASHLAR_GPU_CALL(Memcpy)(to, from, bytes, ASHLAR_GPU_CALL(MemcpyDeviceToDevice)));
}
inline void query_memory(size_t* free_bytes, size_t* total_bytes) {
  check_call(ASHLAR_GPU_CALL(MemGetInfo)(free_bytes, total_bytes));
}
#undef ASHLAR_GPU_CALL

// The device type of PyTorch's GPU tensors. PyTorch for ROCm presents AMD's GPUs as CUDA devices.
inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::CUDA;

using PoolIdPair = std::pair<unsigned long long, unsigned long long>;  // PyTorch's MempoolId_t
using Context = std::shared_ptr<c10::GatheredContext>;
using TorchEntry = caching::TraceEntry;

// The result type of getExpandableSegmentSizes; std::vector<int> if the version lacks the function.

template <typename Allocator>
auto detect_segment_sizes(int)
    -> decltype(std::declval<Allocator&>().getExpandableSegmentSizes(c10::DeviceIndex()));
template <typename Allocator>
std::vector<int> detect_segment_sizes(long);
using SegmentSizes = decltype(detect_segment_sizes<GpuAllocator>(0));

// Adds an element unless the version lacks the function.
template <typename Sizes>
void add_segment_size(Sizes& sizes, void* stream, bool is_small, size_t bytes) {
  if constexpr (!std::is_same_v<Sizes, std::vector<int>>) {
    sizes.emplace_back(static_cast<GpuStreamHandle>(stream), is_small, bytes);
  }
}

// The parts of a trace entry.
struct EntryParts {
  TorchEntry::Action action;
  c10::DeviceIndex device;
  size_t address;
  size_t bytes;
  void* stream;
  PoolIdPair pool;
  Context context;
  std::string compile_context;
  std::string user_metadata;
};

// Makes an entry with the current time.
template <typename Entry = TorchEntry>
Entry make_torch_entry(EntryParts parts) {
  const auto stream = static_cast<GpuStreamHandle>(parts.stream);
  const auto now = c10::getApproximateTime();
  using Action = typename Entry::Action;
  if constexpr (std::is_constructible_v<Entry, Action, c10::DeviceIndex, size_t, size_t,
                                        GpuStreamHandle, PoolIdPair, c10::approx_time_t, Context,
                                        std::string, std::string>) {
    return Entry(parts.action, parts.device, parts.address, parts.bytes, stream, parts.pool, now,
                 std::move(parts.context), std::move(parts.compile_context),
                 std::move(parts.user_metadata));
  } else if constexpr (std::is_constructible_v<Entry, Action, c10::DeviceIndex, size_t, size_t,
                                               GpuStreamHandle, PoolIdPair, c10::approx_time_t,
                                               Context, std::string>) {
    return Entry(parts.action, parts.device, parts.address, parts.bytes, stream, parts.pool, now,
                 std::move(parts.context), std::move(parts.compile_context));
  } else if constexpr (std::is_constructible_v<Entry, Action, c10::DeviceIndex, size_t, size_t,
                                               GpuStreamHandle, PoolIdPair, c10::approx_time_t,
                                               Context>) {
    return Entry(parts.action, parts.device, parts.address, parts.bytes, stream, parts.pool, now,
                 std::move(parts.context));
  } else {
    return Entry(parts.action, parts.device, parts.address, parts.bytes, stream, now,
                 std::move(parts.context));
  }
}

// Adds an annotation to the snapshot unless the version lacks annotations.
template <typename Snapshot, typename Fields>
void add_annotation(Snapshot& snapshot, c10::DeviceIndex device, int64_t time_us,
                    const Fields& fields) {
  if constexpr (requires { snapshot.external_annotations; }) {
    auto& annotation = snapshot.external_annotations.emplace_back(device, c10::approx_time_t());
    annotation.time_.t_ = static_cast<time_t>(time_us);
    for (const auto& [name, value] : fields) {
      annotation.recordUserMetadata(std::string(name), std::string(value));
    }
  }
}

// Sets the number that orders the segments of a pool, unless the version lacks it. PyTorch
// registers the segments of a pool with NCCL in this order, which must be the same on all ranks.
template <typename Segment>
void set_registration_counter(Segment& segment, uint64_t creation_number) {
  if constexpr (requires { segment.registration_counter; }) {
    segment.registration_counter =
        static_cast<decltype(segment.registration_counter)>(creation_number);
  }
}

// Fills the snapshot's settings from PyTorch's configuration.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
template <typename Settings, typename Config = GpuAllocatorConfig>
void fill_settings(Settings& settings) {
  settings.garbage_collection_threshold = Config::garbage_collection_threshold();
  settings.max_split_size = Config::max_split_size();
  settings.pinned_num_register_threads = Config::pinned_num_register_threads();
  settings.expandable_segments = Config::expandable_segments();
  if constexpr (requires { Config::release_lock_on_cudamalloc(); }) {
    settings.release_lock_on_malloc = Config::release_lock_on_cudamalloc();
  } else if constexpr (requires { Config::release_lock_on_hipmalloc(); }) {
    settings.release_lock_on_malloc = Config::release_lock_on_hipmalloc();
  }
  if constexpr (requires { Config::pinned_use_cuda_host_register(); }) {
    settings.pinned_use_host_register = Config::pinned_use_cuda_host_register();
  } else if constexpr (requires { Config::pinned_use_hip_host_register(); }) {
    settings.pinned_use_host_register = Config::pinned_use_hip_host_register();
  }
  settings.last_allocator_settings = Config::last_allocator_settings();
  settings.roundup_power2_divisions = Config::roundup_power2_divisions();
  if constexpr (requires { settings.graph_capture_record_stream_reuse; }) {
    settings.graph_capture_record_stream_reuse = Config::graph_capture_record_stream_reuse();
  }
}
#pragma GCC diagnostic pop

// Returns the memory fraction in PyTorch's configuration; 1 if the version lacks that setting.
template <typename Config = GpuAllocatorConfig>
double configured_memory_fraction() {
  if constexpr (requires { Config::per_process_memory_fraction(); }) {
    return Config::per_process_memory_fraction();
  } else {
    return 1;
  }
}

}  // namespace ashlar::torch::native
