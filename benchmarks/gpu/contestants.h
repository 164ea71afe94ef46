// SPDX-License-Identifier: Apache-2.0
//
// Who is measured by side_by_side.cc: each can take memory and give it back, on its stream, says
// how much it holds from the device, and throws where it fails.
//
// ASHLAR_WITH_TORCH and ASHLAR_WITH_CUDART say who takes part, so that a machine without a GPU can
// try the rest, over a stand-in driver or the simulated device.
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

inline void must(ashlar_status status) {
  if (status != ASHLAR_OK) throw std::runtime_error(ashlar_last_message());
}

inline size_t reserved_by(const ashlar_allocator* allocator) {
  ashlar_stats stats{};
  stats.struct_size = sizeof stats;
  must(ashlar_get_stats(allocator, &stats));
  return size_t(stats.reserved_bytes.current);
}

struct AddressUser {
  using Held = void*;
  ashlar_allocator* allocator;
  ashlar_stream stream;
  Held take(size_t bytes) const {
    void* memory = nullptr;
    must(ashlar_allocate(allocator, bytes, stream, &memory));
    return memory;
  }
  void give(Held held) const { must(ashlar_free(allocator, held)); }
  size_t reserved_bytes() const { return reserved_by(allocator); }
};

struct BlockUser {
  using Held = ashlar_block*;
  ashlar_allocator* allocator;
  ashlar_stream stream;
  Held take(size_t bytes) const {
    ashlar_block* block = nullptr;
    must(ashlar_allocate_block(allocator, bytes, stream, &block));
    return block;
  }
  void give(Held held) const { must(ashlar_free_block(allocator, held)); }
  size_t reserved_bytes() const { return reserved_by(allocator); }
};

#if ASHLAR_WITH_TORCH
struct TorchUser {
  using Held = void*;
  cudaStream_t stream;
  Held take(size_t bytes) const {
    return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, stream);
  }
  void give(Held held) const { c10::cuda::CUDACachingAllocator::raw_delete(held); }
  size_t reserved_bytes() const {
    constexpr size_t kOfAllPools = 0;
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
    return size_t(stats.reserved_bytes[kOfAllPools].current);
  }
};
#endif

#if ASHLAR_WITH_CUDART
inline void must(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

struct AsyncUser {
  using Held = void*;
  cudaStream_t stream;
  Held take(size_t bytes) const {
    void* memory = nullptr;
    must(cudaMallocAsync(&memory, bytes, stream));
    return memory;
  }
  void give(Held held) const { must(cudaFreeAsync(held, stream)); }
  size_t reserved_bytes() const {
    cudaMemPool_t pool = nullptr;
    uint64_t bytes = 0;
    must(cudaDeviceGetDefaultMemPool(&pool, 0));
    must(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
  }
};
#endif

}  // namespace side_by_side
