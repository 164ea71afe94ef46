// SPDX-License-Identifier: Apache-2.0
//
// C functions: symmetric heap allocation.
#include <bit>
#include <cstring>
#include <limits>

#include "shmem/errors.h"
#include "shmem/profiling.h"
#include "shmem/runtime.h"

using ashlar::shmem::c_call;
using ashlar::shmem::Runtime;

namespace {

constexpr size_t kAlignment = alignof(std::max_align_t);

}  // namespace

void* shmem_malloc(size_t size) {
  return c_call("shmem_malloc", [&] {
    return Runtime::get().allocate({"shmem_malloc", {size}}, size, kAlignment);
  });
}
ASHLAR_SHMEM_PROFILED(shmem_malloc)

// When the call returns on any PE, the memory is zero on all PEs.
void* shmem_calloc(size_t count, size_t size) {
  return c_call("shmem_calloc", [&]() -> void* {
    Runtime& runtime = Runtime::get();
    size_t bytes = 0;
    const bool fits = !__builtin_mul_overflow(count, size, &bytes);
    const ashlar::shmem::CollectiveCall call{"shmem_calloc", {count, size}, 2};
    void* memory =
        runtime.allocate(call, fits ? bytes : std::numeric_limits<size_t>::max(), kAlignment);
    if (memory == nullptr) return nullptr;
    std::memset(memory, 0, bytes);
    runtime.world_group().group().barrier();
    return memory;
  });
}
ASHLAR_SHMEM_PROFILED(shmem_calloc)

void* shmem_align(size_t alignment, size_t size) {
  return c_call("shmem_align", [&] {
    Runtime& runtime = Runtime::get();
    if (!std::has_single_bit(alignment)) return static_cast<void*>(nullptr);
    return runtime.allocate({"shmem_align", {alignment, size}, 2}, size, alignment);
  });
}
ASHLAR_SHMEM_PROFILED(shmem_align)

void* shmem_malloc_with_hints(size_t size, long hints) {
  return c_call("shmem_malloc_with_hints", [&] {
    return Runtime::get().allocate(
        {"shmem_malloc_with_hints", {size, static_cast<uint64_t>(hints)}, 2}, size, kAlignment);
  });
}
ASHLAR_SHMEM_PROFILED(shmem_malloc_with_hints)

void* shmem_realloc(void* ptr, size_t size) {
  return c_call("shmem_realloc", [&] { return Runtime::get().reallocate(ptr, size); });
}
ASHLAR_SHMEM_PROFILED(shmem_realloc)

void shmem_free(void* ptr) {
  c_call("shmem_free", [&] { Runtime::get().free(ptr); });
}
ASHLAR_SHMEM_PROFILED(shmem_free)

void* shmalloc(size_t size) { return pshmem_malloc(size); }
ASHLAR_SHMEM_PROFILED(shmalloc)
void shfree(void* ptr) { pshmem_free(ptr); }
ASHLAR_SHMEM_PROFILED(shfree)
void* shmemalign(size_t alignment, size_t size) { return pshmem_align(alignment, size); }
ASHLAR_SHMEM_PROFILED(shmemalign)
void* shrealloc(void* ptr, size_t size) { return pshmem_realloc(ptr, size); }
ASHLAR_SHMEM_PROFILED(shrealloc)
