// SPDX-License-Identifier: Apache-2.0
//
// The symmetric heap, for C.
#include <cstring>
#include <limits>

#include "ashlar/shmem/shmem.h"
#include "shmem/failing.h"
#include "shmem/world.h"

using ashlar::shmem::guarded;
using ashlar::shmem::refuse;
using ashlar::shmem::World;

namespace {

constexpr size_t kAlignment = alignof(std::max_align_t);

}  // namespace

void* shmem_malloc(size_t size) {
  return guarded("shmem_malloc", [&] {
    return World::get().allocate({"shmem_malloc", {size}}, size, kAlignment);
  });
}

// All that was asked for is zero on all PEs when it returns on any.
void* shmem_calloc(size_t count, size_t size) {
  return guarded("shmem_calloc", [&]() -> void* {
    World& world = World::get();
    size_t bytes = 0;
    const bool fits = !__builtin_mul_overflow(count, size, &bytes);
    const ashlar::shmem::Wish wish{"shmem_calloc", {count, size}, 2};
    void* made =
        world.allocate(wish, fits ? bytes : std::numeric_limits<size_t>::max(), kAlignment);
    if (made == nullptr) return nullptr;
    std::memset(made, 0, bytes);
    world.everybody().group().barrier();
    return made;
  });
}

void* shmem_align(size_t alignment, size_t size) {
  return guarded("shmem_align", [&] {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      refuse("alignment ", alignment, ": expected a power of two");
    }
    constexpr size_t kMost = ashlar::shmem::RangeAllocator::kMostAlignment;
    if (alignment > kMost) refuse("alignment ", alignment, ": expected at most ", kMost);
    return World::get().allocate({"shmem_align", {alignment, size}, 2}, size, alignment);
  });
}

void* shmem_malloc_with_hints(size_t size, long hints) {
  return guarded("shmem_malloc_with_hints", [&] {
    constexpr long kKnown = SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE;
    if ((hints & ~kKnown) != 0) refuse("hints ", hints, ": there are none beyond ", kKnown);
    return World::get().allocate(
        {"shmem_malloc_with_hints", {size, static_cast<uint64_t>(hints)}, 2}, size, kAlignment);
  });
}

void* shmem_realloc(void* ptr, size_t size) {
  return guarded("shmem_realloc", [&] { return World::get().reallocate(ptr, size); });
}

void shmem_free(void* ptr) {
  guarded("shmem_free", [&] { World::get().free(ptr); });
}

void* shmalloc(size_t size) { return shmem_malloc(size); }
void shfree(void* ptr) { shmem_free(ptr); }
