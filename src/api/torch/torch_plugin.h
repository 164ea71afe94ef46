// SPDX-License-Identifier: Apache-2.0
//
// The symbols that libashlar_torch.so exports to PyTorch, in addition to the C API: functions with
// the signatures of torch.cuda.memory.CUDAPluggableAllocator and its hooks. python/ashlar/torch.py
// installs them; docs/how-to/pytorch.md explains how to do it by hand.
//
// A stream is a cudaStream_t or hipStream_t. Thread safe. Except for the free, functions throw like
// PyTorch's own allocator: PyTorch turns errors into RuntimeError, and out of memory into
// torch.OutOfMemoryError.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "ashlar/c/ashlar.h"

// PyTorch's MempoolId_t.
using TorchPoolId = std::pair<unsigned long long, unsigned long long>;

extern "C" {

// Sets the back end and the options, as for ashlar_allocator_create; null: as in the environment.
// ASHLAR_INVALID_ARGUMENT if memory is allocated already. Optional: the first allocation applies
// the defaults.
ASHLAR_C_API ashlar_status ashlar_torch_configure(const char* backend,
                                                  const char* options) noexcept;
// The allocator of a PyTorch device, for statistics and snapshots. Null on error; see
// ashlar_last_message. Owned by the process: do not destroy it.
ASHLAR_C_API ashlar_allocator* ashlar_torch_allocator(int device) noexcept;

// Allocates for the whole process. Throws if out of memory, because PyTorch would return null to
// its caller.
ASHLAR_C_API void* ashlar_torch_alloc(size_t bytes, int device, void* stream);
ASHLAR_C_API void ashlar_torch_free(void* memory, size_t bytes, int device, void* stream) noexcept;
// Allocates for a torch.cuda.MemPool. Returns null if out of memory: PyTorch then empties its cache
// and tries again. Freed with ashlar_torch_free.
ASHLAR_C_API void* ashlar_torch_pool_alloc(size_t bytes, int device, void* stream) noexcept;

// Hooks.
ASHLAR_C_API void ashlar_torch_init(int device_count) noexcept;
ASHLAR_C_API void ashlar_torch_reset();
ASHLAR_C_API void ashlar_torch_memory_fraction(double fraction, int device);
ASHLAR_C_API void* ashlar_torch_base_alloc(void* memory, size_t* bytes) noexcept;
// Ignores memory of other libraries: PyTorch calls this for every tensor.
ASHLAR_C_API void ashlar_torch_record_stream(void* memory, void* stream);
// The following take C++ types, and require the same std::function as PyTorch's compiler.
ASHLAR_C_API void ashlar_torch_begin_allocate_to_pool(int device, TorchPoolId pool,
                                                      std::function<bool(void*)> filter);
ASHLAR_C_API void ashlar_torch_end_allocate_to_pool(int device, TorchPoolId pool);
ASHLAR_C_API void ashlar_torch_release_pool(int device, TorchPoolId pool);

}  // extern "C"
