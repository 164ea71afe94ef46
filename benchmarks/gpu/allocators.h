// SPDX-License-Identifier: Apache-2.0
//
// The allocators that side_by_side.cc measures. Each allocator allocates and frees on its stream,
// reports its reserved memory, and throws on failure.
//
// ASHLAR_WITH_TORCH and ASHLAR_WITH_CUDART add PyTorch's allocator and the driver's pool. Without
// these macros, the benchmark can be tried without a GPU, on a stand-in driver or the simulated
// device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "ashlar/c/ashlar.h"

#if ASHLAR_WITH_TORCH
#include <c10/cuda/CUDACachingAllocator.h>
#endif
#if ASHLAR_WITH_CUDART
#include <cuda_runtime_api.h>
#endif

namespace side_by_side {

inline void check(ashlar_status status) {
  if (status != ASHLAR_OK) throw std::runtime_error(ashlar_last_message());
}

inline size_t reserved_by(const ashlar_allocator* allocator) {
  ashlar_stats stats{};
  stats.struct_size = sizeof stats;
  check(ashlar_get_stats(allocator, &stats));
  return size_t(stats.reserved_bytes.current);
}

struct AddressAllocator {
  using Memory = void*;
  ashlar_allocator* allocator;
  ashlar_stream stream;
  Memory allocate(size_t bytes) const {
    void* memory = nullptr;
    check(ashlar_allocate(allocator, bytes, stream, &memory));
    return memory;
  }
  void free(Memory memory) const { check(ashlar_free(allocator, memory)); }
  size_t reserved_bytes() const { return reserved_by(allocator); }
};

struct BlockAllocator {
  using Memory = ashlar_block*;
  ashlar_allocator* allocator;
  ashlar_stream stream;
  Memory allocate(size_t bytes) const {
    ashlar_block* block = nullptr;
    check(ashlar_allocate_block(allocator, bytes, stream, &block));
    return block;
  }
  void free(Memory memory) const { check(ashlar_free_block(allocator, memory)); }
  size_t reserved_bytes() const { return reserved_by(allocator); }
};

#if ASHLAR_WITH_TORCH
struct TorchAllocator {
  using Memory = void*;
  cudaStream_t stream;
  Memory allocate(size_t bytes) const {
    return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, stream);
  }
  void free(Memory memory) const { c10::cuda::CUDACachingAllocator::raw_delete(memory); }
  size_t reserved_bytes() const {
    constexpr size_t kAllPools = 0;
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
    return size_t(stats.reserved_bytes[kAllPools].current);
  }
};
#endif

#if ASHLAR_WITH_CUDART
inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

struct AsyncAllocator {
  using Memory = void*;
  cudaStream_t stream;
  Memory allocate(size_t bytes) const {
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, bytes, stream));
    return memory;
  }
  void free(Memory memory) const { check(cudaFreeAsync(memory, stream)); }
  size_t reserved_bytes() const {
    cudaMemPool_t pool = nullptr;
    uint64_t bytes = 0;
    check(cudaDeviceGetDefaultMemPool(&pool, 0));
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
  }
};
#endif

}  // namespace side_by_side
