// SPDX-License-Identifier: Apache-2.0
//
// The primitives that kernels use: inline PTX on a GPU (compute capability 7.0 or later), or host
// code in tests (host_intrinsics.h).
//
// Pads are shared with other GPUs and processes, so all atomics have system scope.
#pragma once

#include <bit>
#include <cstdint>

namespace ashlar::symm::kernels {

// The widest vector that a thread loads and stores.
struct alignas(16) Vec16 {
  uint32_t word[4];
};

}  // namespace ashlar::symm::kernels

#if defined(__CUDACC__) || defined(__CUDA__)

// clang without a CUDA toolkit does not define `__global__`, `__device__` and `__forceinline__`.
// Everything is inlined, so that kernel arguments are read in place instead of being copied to each
// thread's stack.
#if !defined(__global__)
#define ASHLAR_KERNEL extern "C" __attribute__((global)) void
#define ASHLAR_ON_DEVICE __attribute__((device, always_inline)) inline
#else
#define ASHLAR_KERNEL extern "C" __global__ void
#define ASHLAR_ON_DEVICE __device__ __forceinline__
#endif
// For loops over ranks. Unrolling them would only enlarge the code, which the driver may have to
// compile at load time.
#define ASHLAR_NO_UNROLL _Pragma("unroll 1")

namespace ashlar::symm::kernels {

ASHLAR_ON_DEVICE uint32_t thread_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}
ASHLAR_ON_DEVICE uint32_t thread_count() {
  uint32_t count;
  asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(count));
  return count;
}
ASHLAR_ON_DEVICE uint32_t block_index() {
  uint32_t index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
}
ASHLAR_ON_DEVICE uint32_t block_count() {
  uint32_t count;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(count));
  return count;
}

ASHLAR_ON_DEVICE uint64_t now_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
// Returns the time at which the kernel began. Reads the clock, so it must be called at the start of
// the kernel. The threads of a block start together, so their times are nearly equal.
ASHLAR_ON_DEVICE uint64_t began_ns() { return now_ns(); }
// Called between polls of a word. Suspends the thread for roughly 32 ns to 2 us, depending on
// `turn`.
ASHLAR_ON_DEVICE void back_off(uint32_t turn) {
  const uint32_t ns = turn < 6 ? 32u << turn : 2048u;
  asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory");
}

template <typename T>
ASHLAR_ON_DEVICE T* device_memory(uint64_t address, uint64_t /*count*/ = 1) {
  return reinterpret_cast<T*>(address);
}
template <typename T>
ASHLAR_ON_DEVICE T* host_memory(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

// `read_pack` and `write_pack` access plain memory with vector instructions, because compilers
// would split the accesses.
template <typename Pack>
ASHLAR_ON_DEVICE Pack read_pack(const Pack* from) {
  if constexpr (sizeof(Pack) == 16) {
    Vec16 words;
    asm volatile("ld.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]),
                   "=r"(words.word[3])
                 : "l"(from)
                 : "memory");
    return std::bit_cast<Pack>(words);
  } else {
    return *from;
  }
}
template <typename Pack>
ASHLAR_ON_DEVICE void write_pack(Pack* to, const Pack& pack) {
  if constexpr (sizeof(Pack) == 16) {
    const Vec16 words = std::bit_cast<Vec16>(pack);
    asm volatile("st.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.word[0]),
                 "r"(words.word[1]), "r"(words.word[2]), "r"(words.word[3])
                 : "memory");
  } else {
    *to = pack;
  }
}

ASHLAR_ON_DEVICE uint32_t load(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
ASHLAR_ON_DEVICE uint64_t load(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
ASHLAR_ON_DEVICE uint32_t load_acquire(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
ASHLAR_ON_DEVICE uint64_t load_acquire(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
ASHLAR_ON_DEVICE void store(uint32_t* word, uint32_t value) {
  asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
ASHLAR_ON_DEVICE void store(uint64_t* word, uint64_t value) {
  asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
ASHLAR_ON_DEVICE void store_release(uint32_t* word, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
ASHLAR_ON_DEVICE void store_release(uint64_t* word, uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
// Returns true if the word was `expected` and is now `wanted`. Acquire-release.
ASHLAR_ON_DEVICE bool compare_exchange(uint32_t* word, uint32_t expected, uint32_t wanted) {
  uint32_t found;
  asm volatile("atom.acq_rel.sys.cas.b32 %0, [%1], %2, %3;"
               : "=r"(found)
               : "l"(word), "r"(expected), "r"(wanted)
               : "memory");
  return found == expected;
}
// Adds to the word and returns the old value. Acquire-release.
ASHLAR_ON_DEVICE uint32_t add(uint32_t* word, uint32_t amount) {
  uint32_t before;
  asm volatile("atom.acq_rel.sys.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(word), "r"(amount)
               : "memory");
  return before;
}
ASHLAR_ON_DEVICE uint64_t add(uint64_t* word, uint64_t amount) {
  uint64_t before;
  asm volatile("atom.acq_rel.sys.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(word), "l"(amount)
               : "memory");
  return before;
}

}  // namespace ashlar::symm::kernels

#else

#define ASHLAR_ON_DEVICE inline
#define ASHLAR_NO_UNROLL
#include "symm/backends/cuda/kernels/host_intrinsics.h"

#endif

namespace ashlar::symm::kernels {

// Calls `each` with the offset of every unit from `begin` to `end`, divided among all threads.
template <typename Unit, typename Each>
ASHLAR_ON_DEVICE void for_each_unit(uint64_t begin, uint64_t end, const Each& each) {
  const uint64_t thread = uint64_t{block_index()} * thread_count() + thread_index();
  const uint64_t step = uint64_t{block_count()} * thread_count() * sizeof(Unit);
  ASHLAR_NO_UNROLL
  for (uint64_t at = begin + thread * sizeof(Unit); at < end; at += step) each(at);
}

}  // namespace ashlar::symm::kernels
