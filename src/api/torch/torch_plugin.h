// SPDX-License-Identifier: Apache-2.0
//
// What libashlar_torch.so shows to PyTorch, beside the C interface: functions in the shapes that
// torch.cuda.memory.CUDAPluggableAllocator and its hooks take. python/ashlar/torch.py puts them in
// place; docs/guide/pytorch.md tells how to do it by hand.
//
// A stream is a cudaStream_t or hipStream_t, which to Ashlar is the device's stream. Every function
// may be called from any thread. But for the free, a failure is thrown, as PyTorch's own allocator
// does: PyTorch turns it into a RuntimeError with our message, out of memory into its own
// torch.OutOfMemoryError.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "ashlar/c/ashlar.h"

// PyTorch's MempoolId_t.
using TorchPoolId = std::pair<unsigned long long, unsigned long long>;

extern "C" {

// Which back end and which options, as for ashlar_allocator_create; null: as the environment says.
// ASHLAR_INVALID_ARGUMENT: memory was allocated already. For a program that says nothing, the first
// allocation does it.
ASHLAR_C_API ashlar_status ashlar_torch_configure(const char* backend,
                                                  const char* options) noexcept;
// The allocator of a device of PyTorch's, for statistics and snapshots; null: it cannot be had, and
// ashlar_last_message says why. It is the process's, and not to be destroyed.
ASHLAR_C_API ashlar_allocator* ashlar_torch_allocator(int device) noexcept;

// --- as the allocator of the whole process ----------------------------------------------------
// PyTorch would hand out a null that it is given here, so that out of memory is thrown.
ASHLAR_C_API void* ashlar_torch_alloc(size_t bytes, int device, void* stream);
ASHLAR_C_API void ashlar_torch_free(void* memory, size_t bytes, int device, void* stream) noexcept;
// --- as the allocator behind a torch.cuda.MemPool ---------------------------------------------
// Null is out of memory: PyTorch then empties its cache and asks again. The free is the same.
ASHLAR_C_API void* ashlar_torch_pool_alloc(size_t bytes, int device, void* stream) noexcept;

// --- hooks ------------------------------------------------------------------------------------
ASHLAR_C_API void ashlar_torch_init(int device_count) noexcept;
ASHLAR_C_API void ashlar_torch_reset();
ASHLAR_C_API void ashlar_torch_memory_fraction(double fraction, int device);
ASHLAR_C_API void* ashlar_torch_base_alloc(void* memory, size_t* bytes) noexcept;
// Memory that is not Ashlar's is left alone: PyTorch asks for any tensor.
ASHLAR_C_API void ashlar_torch_record_stream(void* memory, void* stream);
// These have C++ types in PyTorch, too: they need its compiler's kind of std::function.
ASHLAR_C_API void ashlar_torch_begin_allocate_to_pool(int device, TorchPoolId pool,
                                                      std::function<bool(void*)> filter);
ASHLAR_C_API void ashlar_torch_end_allocate_to_pool(int device, TorchPoolId pool);
ASHLAR_C_API void ashlar_torch_release_pool(int device, TorchPoolId pool);

}  // extern "C"
