// SPDX-License-Identifier: Apache-2.0
//
// Collectives over teams and, deprecated, over active sets. Included by shmem.h. All PEs of a team
// must call its collectives in the same order, with symmetric addresses and, except for collect,
// the same sizes. Collectives over teams return 0.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ASHLAR_SHMEM_DECLARE_TRANSFERS(PREFIX, SUFFIX, T)                              \
  ASHLAR_SHMEM_FUNCTION(                                                               \
      int, shmem_##PREFIX##broadcast##SUFFIX,                                          \
      (shmem_team_t team, T * dest, const T* source, size_t nelems, int pe_root))      \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##PREFIX##collect##SUFFIX,                          \
                        (shmem_team_t team, T * dest, const T* source, size_t nelems)) \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##PREFIX##fcollect##SUFFIX,                         \
                        (shmem_team_t team, T * dest, const T* source, size_t nelems)) \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##PREFIX##alltoall##SUFFIX,                         \
                        (shmem_team_t team, T * dest, const T* source, size_t nelems)) \
  ASHLAR_SHMEM_FUNCTION(                                                               \
      int, shmem_##PREFIX##alltoalls##SUFFIX,                                          \
      (shmem_team_t team, T * dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems))
#define ASHLAR_SHMEM_DECLARE(NAME, T) ASHLAR_SHMEM_DECLARE_TRANSFERS(NAME##_, , T)
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
ASHLAR_SHMEM_DECLARE_TRANSFERS(, mem, void)
#undef ASHLAR_SHMEM_DECLARE_TRANSFERS

// Reductions combine elements in the order of PEs; all PEs get bitwise equal results. `dest` must
// either equal `source` or not overlap it.
#define ASHLAR_SHMEM_DECLARE_REDUCTION(NAME, T, OPNAME, OP)    \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##NAME##_##OPNAME##_reduce, \
                        (shmem_team_t team, T * dest, const T* source, size_t nreduce))
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_OPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_BITWISE_REDUCE_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_MIN_MAX_OPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_MIN_MAX_REDUCE_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_ARITHMETIC_OPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ARITHMETIC_REDUCE_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#undef ASHLAR_SHMEM_DECLARE_REDUCTION

// Scans of OpenSHMEM 1.6. A PE gets the sum of the elements of all PEs before it in the team and,
// in an inclusive scan, its own. `dest` may equal `source`.
#define ASHLAR_SHMEM_DECLARE(NAME, T)                                                  \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##NAME##_sum_inscan,                                \
                        (shmem_team_t team, T * dest, const T* source, size_t nelems)) \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##NAME##_sum_exscan,                                \
                        (shmem_team_t team, T * dest, const T* source, size_t nelems))
ASHLAR_SHMEM_ARITHMETIC_REDUCE_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE

// Deprecated collectives over active sets. An active set has PE_size PEs: PE_start, PE_start +
// 2^logPE_stride, and so on. pSync and pWrk are neither read nor written.
ASHLAR_SHMEM_FUNCTION(void, shmem_barrier,
                      (int PE_start, int logPE_stride, int PE_size, long* pSync))
ASHLAR_SHMEM_FUNCTION(void, shmem_sync, (int PE_start, int logPE_stride, int PE_size, long* pSync))

// Unlike the team broadcast, these broadcasts do not write the root's own `dest`.
#define ASHLAR_SHMEM_DECLARE(BITS)                                                                 \
  ASHLAR_SHMEM_FUNCTION(void, shmem_broadcast##BITS,                                               \
                        (void* dest, const void* source, size_t nelems, int PE_root, int PE_start, \
                         int logPE_stride, int PE_size, long* pSync))                              \
  ASHLAR_SHMEM_FUNCTION(void, shmem_collect##BITS,                                                 \
                        (void* dest, const void* source, size_t nelems, int PE_start,              \
                         int logPE_stride, int PE_size, long* pSync))                              \
  ASHLAR_SHMEM_FUNCTION(void, shmem_fcollect##BITS,                                                \
                        (void* dest, const void* source, size_t nelems, int PE_start,              \
                         int logPE_stride, int PE_size, long* pSync))                              \
  ASHLAR_SHMEM_FUNCTION(void, shmem_alltoall##BITS,                                                \
                        (void* dest, const void* source, size_t nelems, int PE_start,              \
                         int logPE_stride, int PE_size, long* pSync))                              \
  ASHLAR_SHMEM_FUNCTION(void, shmem_alltoalls##BITS,                                               \
                        (void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst,             \
                         size_t nelems, int PE_start, int logPE_stride, int PE_size, long* pSync))
ASHLAR_SHMEM_DECLARE(32)
ASHLAR_SHMEM_DECLARE(64)
#undef ASHLAR_SHMEM_DECLARE

#define ASHLAR_SHMEM_DECLARE_REDUCTION(NAME, T, OPNAME, OP)                                      \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_##OPNAME##_to_all,                                  \
                        (T * dest, const T* source, int nreduce, int PE_start, int logPE_stride, \
                         int PE_size, T* pWrk, long* pSync))
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_OPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_BITWISE_TO_ALL_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_MIN_MAX_OPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_MIN_MAX_TO_ALL_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_ARITHMETIC_OPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ARITHMETIC_TO_ALL_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#undef ASHLAR_SHMEM_DECLARE_REDUCTION

#ifdef __cplusplus
}

// In C++, the complex types of the functions above are std::complex. These overloads accept the
// types of C, which have the same representation.
#define ASHLAR_SHMEM_DEFINE_REDUCTION(NAME, T, C_TYPE, OPNAME)                              \
  inline int shmem_##NAME##_##OPNAME(shmem_team_t team, C_TYPE* dest, const C_TYPE* source, \
                                     size_t count) {                                        \
    return shmem_##NAME##_##OPNAME(team, reinterpret_cast<T*>(dest),                        \
                                   reinterpret_cast<const T*>(source), count);              \
  }
#define ASHLAR_SHMEM_DEFINE_TO_ALL(NAME, T, C_TYPE, OPNAME)                                     \
  inline void shmem_##NAME##_##OPNAME##_to_all(C_TYPE* dest, const C_TYPE* source, int nreduce, \
                                               int PE_start, int logPE_stride, int PE_size,     \
                                               C_TYPE* pWrk, long* pSync) {                     \
    shmem_##NAME##_##OPNAME##_to_all(reinterpret_cast<T*>(dest),                                \
                                     reinterpret_cast<const T*>(source), nreduce, PE_start,     \
                                     logPE_stride, PE_size, reinterpret_cast<T*>(pWrk), pSync); \
  }
#define ASHLAR_SHMEM_DEFINE(NAME, T, C_TYPE)                  \
  ASHLAR_SHMEM_DEFINE_REDUCTION(NAME, T, C_TYPE, sum_reduce)  \
  ASHLAR_SHMEM_DEFINE_REDUCTION(NAME, T, C_TYPE, prod_reduce) \
  ASHLAR_SHMEM_DEFINE_REDUCTION(NAME, T, C_TYPE, sum_inscan)  \
  ASHLAR_SHMEM_DEFINE_REDUCTION(NAME, T, C_TYPE, sum_exscan)  \
  ASHLAR_SHMEM_DEFINE_TO_ALL(NAME, T, C_TYPE, sum)            \
  ASHLAR_SHMEM_DEFINE_TO_ALL(NAME, T, C_TYPE, prod)
ASHLAR_SHMEM_DEFINE(complexf, ashlar_shmem_complexf, ashlar_shmem_c_complexf)
ASHLAR_SHMEM_DEFINE(complexd, ashlar_shmem_complexd, ashlar_shmem_c_complexd)
#undef ASHLAR_SHMEM_DEFINE
#undef ASHLAR_SHMEM_DEFINE_REDUCTION
#undef ASHLAR_SHMEM_DEFINE_TO_ALL
#endif
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
