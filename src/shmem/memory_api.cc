// SPDX-License-Identifier: Apache-2.0
//
// C functions: symmetric heap allocation.
#include <cstring>
#include <limits>

#include "ashlar/shmem/shmem.h"
#include "shmem/errors.h"
#include "shmem/runtime.h"

using ashlar::shmem::c_call;
using ashlar::shmem::Runtime;
using ashlar::shmem::throw_invalid_argument;

namespace {

constexpr size_t kAlignment = alignof(std::max_align_t);

}  // namespace

void* shmem_malloc(size_t size) {
  return c_call("shmem_malloc", [&] {
    return Runtime::get().allocate({"shmem_malloc", {size}}, size, kAlignment);
  });
}

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

void* shmem_align(size_t alignment, size_t size) {
  return c_call("shmem_align", [&] {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      throw_invalid_argument("alignment ", alignment, ": expected a power of two");
    }
    constexpr size_t kMax = ashlar::shmem::RangeAllocator::kMaxAlignment;
    if (alignment > kMax)
      throw_invalid_argument("alignment ", alignment, ": expected at most ", kMax);
    return Runtime::get().allocate({"shmem_align", {alignment, size}, 2}, size, alignment);
  });
}

void* shmem_malloc_with_hints(size_t size, long hints) {
  return c_call("shmem_malloc_with_hints", [&] {
    constexpr long kKnownHints = SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE;
    if ((hints & ~kKnownHints) != 0)
      throw_invalid_argument("hints ", hints, ": expected a combination of the bits in ",
                             kKnownHints);
    return Runtime::get().allocate(
        {"shmem_malloc_with_hints", {size, static_cast<uint64_t>(hints)}, 2}, size, kAlignment);
  });
}

void* shmem_realloc(void* ptr, size_t size) {
  return c_call("shmem_realloc", [&] { return Runtime::get().reallocate(ptr, size); });
}

void shmem_free(void* ptr) {
  c_call("shmem_free", [&] { Runtime::get().free(ptr); });
}

void* shmalloc(size_t size) { return shmem_malloc(size); }
void shfree(void* ptr) { shmem_free(ptr); }
