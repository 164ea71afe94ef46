// SPDX-License-Identifier: Apache-2.0
//
// Atomics: every type is a word of 4 or 8 bytes.
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// the names and the shape of macros are OpenSHMEM's.
#include <cstring>

#include "ashlar/shmem/shmem.h"
#include "shmem/failing.h"
#include "shmem/world.h"

using ashlar::shmem::guarded;
using ashlar::shmem::World;
using ashlar::symm::AtomicKind;
using ashlar::symm::AtomicOp;
using ashlar::symm::WordBytes;

namespace {

template <typename T>
uint64_t word_of(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(value));
  return word;
}

template <typename T>
T value_of(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

template <typename T>
AtomicOp call_of(AtomicKind kind, T value, T expected = {}) {
  return {.kind = kind,
          .word = static_cast<WordBytes>(sizeof(T)),
          .operand = word_of(value),
          .expected = word_of(expected)};
}

// One word of another PE.
template <typename T>
struct Word {
  shmem_ctx_t context = nullptr;
  const T* address = nullptr;
  int pe = 0;
};

template <typename T>
T fetch(const Word<T>& at, const AtomicOp& call) {
  World& world = World::get();
  return value_of<T>(world.fetch(world.place(at.context, at.address, sizeof(T), at.pe), call));
}

template <typename T>
void post(const Word<T>& at, const AtomicOp& call) {
  World& world = World::get();
  world.post(world.place(at.context, at.address, sizeof(T), at.pe), call);
}

constexpr AtomicKind kSum = AtomicKind::kAdd;

}  // namespace

// A function with an answer, in its four forms. `...`: its parameters between address and PE, and
// their names.
#define ASHLAR_SHMEM_DEFINE_FETCHING(NAME, T, POINTER, PARAMETERS, ARGUMENTS, CALL)           \
  T shmem_ctx_##NAME(shmem_ctx_t ctx, POINTER dest PARAMETERS, int pe) {                      \
    return guarded("shmem_" #NAME, [&] { return fetch<T>({ctx, dest, pe}, CALL); });          \
  }                                                                                           \
  T shmem_##NAME(POINTER dest PARAMETERS, int pe) {                                           \
    return shmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest ARGUMENTS, pe);                           \
  }                                                                                           \
  void shmem_ctx_##NAME##_nbi(shmem_ctx_t ctx, T* fetched, POINTER dest PARAMETERS, int pe) { \
    *fetched = shmem_ctx_##NAME(ctx, dest ARGUMENTS, pe);                                     \
  }                                                                                           \
  void shmem_##NAME##_nbi(T* fetched, POINTER dest PARAMETERS, int pe) {                      \
    *fetched = shmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest ARGUMENTS, pe);                       \
  }
#define ASHLAR_SHMEM_DEFINE_POSTING(NAME, T, PARAMETERS, ARGUMENTS, CALL, ACT) \
  void shmem_ctx_##NAME(shmem_ctx_t ctx, T* dest PARAMETERS, int pe) {         \
    guarded("shmem_" #NAME, [&] { ACT<T>({ctx, dest, pe}, CALL); });           \
  }                                                                            \
  void shmem_##NAME(T* dest PARAMETERS, int pe) {                              \
    shmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest ARGUMENTS, pe);                   \
  }

#define ASHLAR_COMMA ,
#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                          \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_fetch, T, const T*, , , call_of<T>(kSum, 0))     \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_swap, T, T*, ASHLAR_COMMA T value,               \
                               ASHLAR_COMMA value, call_of(AtomicKind::kSwap, value))         \
  ASHLAR_SHMEM_DEFINE_POSTING(NAME##_atomic_set, T, ASHLAR_COMMA T value, ASHLAR_COMMA value, \
                              call_of(AtomicKind::kSwap, value), fetch)
ASHLAR_SHMEM_EXTENDED_ATOMIC_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                           \
  ASHLAR_SHMEM_DEFINE_FETCHING(                                                                \
      NAME##_atomic_compare_swap, T, T*, ASHLAR_COMMA T cond ASHLAR_COMMA T value,             \
      ASHLAR_COMMA cond ASHLAR_COMMA value, call_of(AtomicKind::kCompareAndSwap, value, cond)) \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_fetch_inc, T, T*, , , call_of<T>(kSum, 1))        \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_fetch_add, T, T*, ASHLAR_COMMA T value,           \
                               ASHLAR_COMMA value, call_of(kSum, value))                       \
  ASHLAR_SHMEM_DEFINE_POSTING(NAME##_atomic_inc, T, , , call_of<T>(kSum, 1), post)             \
  ASHLAR_SHMEM_DEFINE_POSTING(NAME##_atomic_add, T, ASHLAR_COMMA T value, ASHLAR_COMMA value,  \
                              call_of(kSum, value), post)
ASHLAR_SHMEM_ATOMIC_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE_BITWISE(NAME, T, STEP, KIND)                                         \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_fetch_##STEP, T, T*, ASHLAR_COMMA T value,          \
                               ASHLAR_COMMA value, call_of(AtomicKind::KIND, value))             \
  ASHLAR_SHMEM_DEFINE_POSTING(NAME##_atomic_##STEP, T, ASHLAR_COMMA T value, ASHLAR_COMMA value, \
                              call_of(AtomicKind::KIND, value), post)
#define ASHLAR_SHMEM_DEFINE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_STEPS(ASHLAR_SHMEM_DEFINE_BITWISE, NAME, T)
ASHLAR_SHMEM_BITWISE_ATOMIC_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

// --- deprecated names ---------------------------------------------------------------------------

#define ASHLAR_SHMEM_DEFINE(NAME, T)                    \
  T shmem_##NAME##_fetch(const T* source, int pe) {     \
    return shmem_##NAME##_atomic_fetch(source, pe);     \
  }                                                     \
  void shmem_##NAME##_set(T* dest, T value, int pe) {   \
    shmem_##NAME##_atomic_set(dest, value, pe);         \
  }                                                     \
  T shmem_##NAME##_swap(T* dest, T value, int pe) {     \
    return shmem_##NAME##_atomic_swap(dest, value, pe); \
  }
ASHLAR_SHMEM_DEFINE(int, int)
ASHLAR_SHMEM_DEFINE(long, long)
ASHLAR_SHMEM_DEFINE(longlong, long long)
ASHLAR_SHMEM_DEFINE(float, float)
ASHLAR_SHMEM_DEFINE(double, double)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                           \
  T shmem_##NAME##_cswap(T* dest, T cond, T value, int pe) {                                   \
    return shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe);                          \
  }                                                                                            \
  T shmem_##NAME##_fadd(T* dest, T value, int pe) {                                            \
    return shmem_##NAME##_atomic_fetch_add(dest, value, pe);                                   \
  }                                                                                            \
  T shmem_##NAME##_finc(T* dest, int pe) { return shmem_##NAME##_atomic_fetch_inc(dest, pe); } \
  void shmem_##NAME##_add(T* dest, T value, int pe) {                                          \
    shmem_##NAME##_atomic_add(dest, value, pe);                                                \
  }                                                                                            \
  void shmem_##NAME##_inc(T* dest, int pe) { shmem_##NAME##_atomic_inc(dest, pe); }
ASHLAR_SHMEM_DEFINE(int, int)
ASHLAR_SHMEM_DEFINE(long, long)
ASHLAR_SHMEM_DEFINE(longlong, long long)
#undef ASHLAR_SHMEM_DEFINE
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
