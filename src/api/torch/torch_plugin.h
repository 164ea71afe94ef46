// SPDX-License-Identifier: Apache-2.0
//
// The symbols that libashlar_torch.so exports to PyTorch, in addition to the C API: functions with
// the signatures of torch.cuda.memory.CUDAPluggableAllocator and its hooks. python/ashlar/torch.py
// installs them; docs/how-to/pytorch.md explains how to do it by hand.
//
// A stream is a cudaStream_t or hipStream_t. Thread safe. Functions that are not noexcept throw;
// PyTorch turns out-of-memory errors into torch.OutOfMemoryError and other errors into
// RuntimeError.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "ashlar/c/ashlar.h"

// PyTorch's MempoolId_t.
using TorchPoolId = std::pair<unsigned long long, unsigned long long>;

extern "C" {

// Sets the back end, and the options in the format of ashlar_allocator_create. If an argument is
// null, or if this function is not called, the environment determines the value. Returns
// ASHLAR_INVALID_ARGUMENT if the options are invalid or an allocator exists already.
ASHLAR_C_API ashlar_status ashlar_torch_configure(const char* backend,
                                                  const char* options) noexcept;
// Returns the allocator of a PyTorch device, for statistics and snapshots. Null on error; see
// ashlar_last_message. Owned by the process: do not destroy it.
ASHLAR_C_API ashlar_allocator* ashlar_torch_allocator(int device) noexcept;

// The allocation function of a CUDAPluggableAllocator that replaces PyTorch's allocator. Throws if
// out of memory, because PyTorch would pass a null result on to its caller.
ASHLAR_C_API void* ashlar_torch_alloc(size_t bytes, int device, void* stream);
ASHLAR_C_API void ashlar_torch_free(void* memory, size_t bytes, int device, void* stream) noexcept;
// The allocation function of a CUDAPluggableAllocator for a torch.cuda.MemPool. Returns null on any
// error: PyTorch then empties its cache and tries again. The memory is freed with
// ashlar_torch_free.
ASHLAR_C_API void* ashlar_torch_pool_alloc(size_t bytes, int device, void* stream) noexcept;

// Hooks of the CUDAPluggableAllocator, which ashlar.torch sets (_HOOKS in torch.py).
ASHLAR_C_API void ashlar_torch_init(int device_count) noexcept;
ASHLAR_C_API void ashlar_torch_reset();
ASHLAR_C_API void ashlar_torch_memory_fraction(double fraction, int device);
ASHLAR_C_API void* ashlar_torch_base_alloc(void* memory, size_t* bytes) noexcept;
// Ignores memory of other libraries, because PyTorch calls this for tensors of any origin.
ASHLAR_C_API void ashlar_torch_record_stream(void* memory, void* stream);
// The next three functions take C++ types, which must have the same layout as in PyTorch.
ASHLAR_C_API void ashlar_torch_begin_allocate_to_pool(int device, TorchPoolId pool,
                                                      std::function<bool(void*)> filter);
ASHLAR_C_API void ashlar_torch_end_allocate_to_pool(int device, TorchPoolId pool);
ASHLAR_C_API void ashlar_torch_release_pool(int device, TorchPoolId pool);

}  // extern "C"
