// SPDX-License-Identifier: Apache-2.0
//
// Atomic operations on one word of a PE's memory. They are atomic with respect to each other,
// whichever PE and transport they come from. Included by shmem.h. Fetching operations return the
// old value. Other operations are complete after the next shmem_quiet, except set, which is
// complete on return.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ASHLAR_SHMEM_DECLARE(NAME, T)                                                 \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_atomic_fetch, (const T* source, int pe))    \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_atomic_set, (T * dest, T value, int pe)) \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_atomic_swap, (T * dest, T value, int pe))   \
  ASHLAR_SHMEM_FUNCTION(T, shmem_ctx_##NAME##_atomic_fetch,                           \
                        (shmem_ctx_t ctx, const T* source, int pe))                   \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_atomic_set,                          \
                        (shmem_ctx_t ctx, T * dest, T value, int pe))                 \
  ASHLAR_SHMEM_FUNCTION(T, shmem_ctx_##NAME##_atomic_swap,                            \
                        (shmem_ctx_t ctx, T * dest, T value, int pe))                 \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_atomic_fetch_nbi,                        \
                        (T * fetch, const T* source, int pe))                         \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_atomic_swap_nbi,                         \
                        (T * fetch, T * dest, T value, int pe))                       \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_atomic_fetch_nbi,                    \
                        (shmem_ctx_t ctx, T * fetch, const T* source, int pe))        \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_atomic_swap_nbi,                     \
                        (shmem_ctx_t ctx, T * fetch, T * dest, T value, int pe))
ASHLAR_SHMEM_EXTENDED_ATOMIC_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE

#define ASHLAR_SHMEM_DECLARE(NAME, T)                                                             \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_atomic_compare_swap,                                    \
                        (T * dest, T cond, T value, int pe))                                      \
  ASHLAR_SHMEM_FUNCTION(T, shmem_ctx_##NAME##_atomic_compare_swap,                                \
                        (shmem_ctx_t ctx, T * dest, T cond, T value, int pe))                     \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_atomic_compare_swap_nbi,                             \
                        (T * fetch, T * dest, T cond, T value, int pe))                           \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_atomic_compare_swap_nbi,                         \
                        (shmem_ctx_t ctx, T * fetch, T * dest, T cond, T value, int pe))          \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_atomic_inc, (T * dest, int pe))                      \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_atomic_fetch_inc, (T * dest, int pe))                   \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_atomic_inc, (shmem_ctx_t ctx, T * dest, int pe)) \
  ASHLAR_SHMEM_FUNCTION(T, shmem_ctx_##NAME##_atomic_fetch_inc,                                   \
                        (shmem_ctx_t ctx, T * dest, int pe))                                      \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_atomic_fetch_inc_nbi, (T * fetch, T * dest, int pe)) \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_atomic_fetch_inc_nbi,                            \
                        (shmem_ctx_t ctx, T * fetch, T * dest, int pe))
ASHLAR_SHMEM_ATOMIC_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE

#define ASHLAR_SHMEM_DECLARE_ATOMIC_OP(NAME, T, OPNAME, KIND)                                 \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_atomic_##OPNAME, (T * dest, T value, int pe))    \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_atomic_fetch_##OPNAME, (T * dest, T value, int pe)) \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_atomic_##OPNAME,                             \
                        (shmem_ctx_t ctx, T * dest, T value, int pe))                         \
  ASHLAR_SHMEM_FUNCTION(T, shmem_ctx_##NAME##_atomic_fetch_##OPNAME,                          \
                        (shmem_ctx_t ctx, T * dest, T value, int pe))                         \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_atomic_fetch_##OPNAME##_nbi,                     \
                        (T * fetch, T * dest, T value, int pe))                               \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_atomic_fetch_##OPNAME##_nbi,                 \
                        (shmem_ctx_t ctx, T * fetch, T * dest, T value, int pe))
#define ASHLAR_SHMEM_DECLARE(NAME, T) ASHLAR_SHMEM_DECLARE_ATOMIC_OP(NAME, T, add, kAdd)
ASHLAR_SHMEM_ATOMIC_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_OPS(ASHLAR_SHMEM_DECLARE_ATOMIC_OP, NAME, T)
ASHLAR_SHMEM_BITWISE_ATOMIC_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#undef ASHLAR_SHMEM_DECLARE_ATOMIC_OP

// Deprecated names.
#define ASHLAR_SHMEM_DECLARE(NAME, T)                                          \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_fetch, (const T* source, int pe))    \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_set, (T * dest, T value, int pe)) \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_swap, (T * dest, T value, int pe))
ASHLAR_SHMEM_DECLARE(int, int)
ASHLAR_SHMEM_DECLARE(long, long)
ASHLAR_SHMEM_DECLARE(longlong, long long)
ASHLAR_SHMEM_DECLARE(float, float)
ASHLAR_SHMEM_DECLARE(double, double)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T)                                                 \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_cswap, (T * dest, T cond, T value, int pe)) \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_fadd, (T * dest, T value, int pe))          \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_finc, (T * dest, int pe))                   \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_add, (T * dest, T value, int pe))        \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_inc, (T * dest, int pe))
ASHLAR_SHMEM_DECLARE(int, int)
ASHLAR_SHMEM_DECLARE(long, long)
ASHLAR_SHMEM_DECLARE(longlong, long long)
#undef ASHLAR_SHMEM_DECLARE

#ifdef __cplusplus
}
#endif
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
