// SPDX-License-Identifier: Apache-2.0
//
// C functions: atomics. Every supported type is a word of 4 or 8 bytes.
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.
#include <cstring>

#include "shmem/errors.h"
#include "shmem/profiling.h"
#include "shmem/runtime.h"

using ashlar::shmem::c_call;
using ashlar::shmem::Runtime;
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
AtomicOp make_op(AtomicKind kind, T value, T expected = {}) {
  return {.kind = kind,
          .word_bytes = static_cast<WordBytes>(sizeof(T)),
          .operand = word_of(value),
          .expected = word_of(expected)};
}

template <typename T>
struct RemoteWord {
  shmem_ctx_t context = nullptr;
  const T* address = nullptr;
  int pe = 0;
};

template <typename T>
T fetch(const RemoteWord<T>& at, const AtomicOp& op) {
  Runtime& runtime = Runtime::get();
  return value_of<T>(runtime.fetch(runtime.resolve(at.context, at.address, sizeof(T), at.pe), op));
}

template <typename T>
void post(const RemoteWord<T>& at, const AtomicOp& op) {
  Runtime& runtime = Runtime::get();
  runtime.post(runtime.resolve(at.context, at.address, sizeof(T), at.pe), op);
}

constexpr AtomicKind kAdd = AtomicKind::kAdd;

}  // namespace

// Defines the four forms of a fetching function. PARAMETERS and ARGUMENTS are the declarations and
// names of the parameters between the address and the PE; OP is the AtomicOp to perform.
#define ASHLAR_SHMEM_DEFINE_FETCHING(NAME, T, POINTER, PARAMETERS, ARGUMENTS, OP)             \
  T shmem_ctx_##NAME(shmem_ctx_t ctx, POINTER dest PARAMETERS, int pe) {                      \
    return c_call("shmem_" #NAME, [&] { return fetch<T>({ctx, dest, pe}, OP); });             \
  }                                                                                           \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME)                                                     \
  T shmem_##NAME(POINTER dest PARAMETERS, int pe) {                                           \
    return pshmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest ARGUMENTS, pe);                          \
  }                                                                                           \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME)                                                         \
  void shmem_ctx_##NAME##_nbi(shmem_ctx_t ctx, T* fetched, POINTER dest PARAMETERS, int pe) { \
    *fetched = pshmem_ctx_##NAME(ctx, dest ARGUMENTS, pe);                                    \
  }                                                                                           \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME##_nbi)                                               \
  void shmem_##NAME##_nbi(T* fetched, POINTER dest PARAMETERS, int pe) {                      \
    *fetched = pshmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest ARGUMENTS, pe);                      \
  }                                                                                           \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_nbi)
// Defines the two forms of a function without a result. FUNCTION is `post`, or `fetch` for a swap,
// which `post` does not support.
#define ASHLAR_SHMEM_DEFINE_POSTING(NAME, T, PARAMETERS, ARGUMENTS, OP, FUNCTION) \
  void shmem_ctx_##NAME(shmem_ctx_t ctx, T* dest PARAMETERS, int pe) {            \
    c_call("shmem_" #NAME, [&] { FUNCTION<T>({ctx, dest, pe}, OP); });            \
  }                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_ctx_##NAME)                                         \
  void shmem_##NAME(T* dest PARAMETERS, int pe) {                                 \
    pshmem_ctx_##NAME(SHMEM_CTX_DEFAULT, dest ARGUMENTS, pe);                     \
  }                                                                               \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME)

#define ASHLAR_COMMA ,
#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                          \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_fetch, T, const T*, , , make_op<T>(kAdd, 0))     \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_swap, T, T*, ASHLAR_COMMA T value,               \
                               ASHLAR_COMMA value, make_op(AtomicKind::kSwap, value))         \
  ASHLAR_SHMEM_DEFINE_POSTING(NAME##_atomic_set, T, ASHLAR_COMMA T value, ASHLAR_COMMA value, \
                              make_op(AtomicKind::kSwap, value), fetch)
ASHLAR_SHMEM_EXTENDED_ATOMIC_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                           \
  ASHLAR_SHMEM_DEFINE_FETCHING(                                                                \
      NAME##_atomic_compare_swap, T, T*, ASHLAR_COMMA T cond ASHLAR_COMMA T value,             \
      ASHLAR_COMMA cond ASHLAR_COMMA value, make_op(AtomicKind::kCompareAndSwap, value, cond)) \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_fetch_inc, T, T*, , , make_op<T>(kAdd, 1))        \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_fetch_add, T, T*, ASHLAR_COMMA T value,           \
                               ASHLAR_COMMA value, make_op(kAdd, value))                       \
  ASHLAR_SHMEM_DEFINE_POSTING(NAME##_atomic_inc, T, , , make_op<T>(kAdd, 1), post)             \
  ASHLAR_SHMEM_DEFINE_POSTING(NAME##_atomic_add, T, ASHLAR_COMMA T value, ASHLAR_COMMA value,  \
                              make_op(kAdd, value), post)
ASHLAR_SHMEM_ATOMIC_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE_BITWISE(NAME, T, OPNAME, KIND)                                         \
  ASHLAR_SHMEM_DEFINE_FETCHING(NAME##_atomic_fetch_##OPNAME, T, T*, ASHLAR_COMMA T value,          \
                               ASHLAR_COMMA value, make_op(AtomicKind::KIND, value))               \
  ASHLAR_SHMEM_DEFINE_POSTING(NAME##_atomic_##OPNAME, T, ASHLAR_COMMA T value, ASHLAR_COMMA value, \
                              make_op(AtomicKind::KIND, value), post)
#define ASHLAR_SHMEM_DEFINE(NAME, T) ASHLAR_SHMEM_BITWISE_OPS(ASHLAR_SHMEM_DEFINE_BITWISE, NAME, T)
ASHLAR_SHMEM_BITWISE_ATOMIC_TYPES(ASHLAR_SHMEM_DEFINE)
#undef ASHLAR_SHMEM_DEFINE

// The deprecated names of the functions above.
#define ASHLAR_SHMEM_DEFINE(NAME, T)                     \
  T shmem_##NAME##_fetch(const T* source, int pe) {      \
    return pshmem_##NAME##_atomic_fetch(source, pe);     \
  }                                                      \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_fetch)            \
  void shmem_##NAME##_set(T* dest, T value, int pe) {    \
    pshmem_##NAME##_atomic_set(dest, value, pe);         \
  }                                                      \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_set)              \
  T shmem_##NAME##_swap(T* dest, T value, int pe) {      \
    return pshmem_##NAME##_atomic_swap(dest, value, pe); \
  }                                                      \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_swap)
ASHLAR_SHMEM_DEFINE(int, int)
ASHLAR_SHMEM_DEFINE(long, long)
ASHLAR_SHMEM_DEFINE(longlong, long long)
ASHLAR_SHMEM_DEFINE(float, float)
ASHLAR_SHMEM_DEFINE(double, double)
#undef ASHLAR_SHMEM_DEFINE

#define ASHLAR_SHMEM_DEFINE(NAME, T)                                                            \
  T shmem_##NAME##_cswap(T* dest, T cond, T value, int pe) {                                    \
    return pshmem_##NAME##_atomic_compare_swap(dest, cond, value, pe);                          \
  }                                                                                             \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_cswap)                                                   \
  T shmem_##NAME##_fadd(T* dest, T value, int pe) {                                             \
    return pshmem_##NAME##_atomic_fetch_add(dest, value, pe);                                   \
  }                                                                                             \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_fadd)                                                    \
  T shmem_##NAME##_finc(T* dest, int pe) { return pshmem_##NAME##_atomic_fetch_inc(dest, pe); } \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_finc)                                                    \
  void shmem_##NAME##_add(T* dest, T value, int pe) {                                           \
    pshmem_##NAME##_atomic_add(dest, value, pe);                                                \
  }                                                                                             \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_add)                                                     \
  void shmem_##NAME##_inc(T* dest, int pe) { pshmem_##NAME##_atomic_inc(dest, pe); }            \
  ASHLAR_SHMEM_PROFILED(shmem_##NAME##_inc)
ASHLAR_SHMEM_DEFINE(int, int)
ASHLAR_SHMEM_DEFINE(long, long)
ASHLAR_SHMEM_DEFINE(longlong, long long)
#undef ASHLAR_SHMEM_DEFINE
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
