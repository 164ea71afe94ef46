// SPDX-License-Identifier: Apache-2.0
//
// Collectives: over teams, and, deprecated, over active sets. Included by shmem.h. Called by all
// PEs of the team, in the same order, with the same sizes and symmetric addresses; they return 0.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// the names and the shape of macros are OpenSHMEM's.

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ASHLAR_SHMEM_DECLARE_MOVING(PREFIX, SUFFIX, T)                                   \
  ASHLAR_SHMEM_API int shmem_##PREFIX##broadcast##SUFFIX(                                \
      shmem_team_t team, T* dest, const T* source, size_t nelems, int pe_root);          \
  ASHLAR_SHMEM_API int shmem_##PREFIX##collect##SUFFIX(shmem_team_t team, T* dest,       \
                                                       const T* source, size_t nelems);  \
  ASHLAR_SHMEM_API int shmem_##PREFIX##fcollect##SUFFIX(shmem_team_t team, T* dest,      \
                                                        const T* source, size_t nelems); \
  ASHLAR_SHMEM_API int shmem_##PREFIX##alltoall##SUFFIX(shmem_team_t team, T* dest,      \
                                                        const T* source, size_t nelems); \
  ASHLAR_SHMEM_API int shmem_##PREFIX##alltoalls##SUFFIX(                                \
      shmem_team_t team, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems);
#define ASHLAR_SHMEM_DECLARE(NAME, T) ASHLAR_SHMEM_DECLARE_MOVING(NAME##_, , T)
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
ASHLAR_SHMEM_DECLARE_MOVING(, mem, void)
#undef ASHLAR_SHMEM_DECLARE_MOVING

// Elements are combined in the order of PEs, and all get the same bits. `dest` is `source`, or
// apart from it.
#define ASHLAR_SHMEM_DECLARE_REDUCTION(NAME, T, STEP, OP)                                          \
  ASHLAR_SHMEM_API int shmem_##NAME##_##STEP##_reduce(shmem_team_t team, T* dest, const T* source, \
                                                      size_t nreduce);
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_STEPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_BITWISE_REDUCE_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_ORDERED_STEPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ORDERED_REDUCE_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_ARITHMETIC_STEPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ARITHMETIC_REDUCE_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#undef ASHLAR_SHMEM_DECLARE_REDUCTION

// --- deprecated: an active set is PE_start, PE_start + 2^logPE_stride, ...; PE_size of them. pSync
// and pWrk are neither read nor written.
ASHLAR_SHMEM_API void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long* pSync);
ASHLAR_SHMEM_API void shmem_sync(int PE_start, int logPE_stride, int PE_size, long* pSync);

// A root's own `dest` is left as it is, unlike that of teams.
#define ASHLAR_SHMEM_DECLARE(BITS)                                                           \
  ASHLAR_SHMEM_API void shmem_broadcast##BITS(void* dest, const void* source, size_t nelems, \
                                              int PE_root, int PE_start, int logPE_stride,   \
                                              int PE_size, long* pSync);                     \
  ASHLAR_SHMEM_API void shmem_collect##BITS(void* dest, const void* source, size_t nelems,   \
                                            int PE_start, int logPE_stride, int PE_size,     \
                                            long* pSync);                                    \
  ASHLAR_SHMEM_API void shmem_fcollect##BITS(void* dest, const void* source, size_t nelems,  \
                                             int PE_start, int logPE_stride, int PE_size,    \
                                             long* pSync);                                   \
  ASHLAR_SHMEM_API void shmem_alltoall##BITS(void* dest, const void* source, size_t nelems,  \
                                             int PE_start, int logPE_stride, int PE_size,    \
                                             long* pSync);                                   \
  ASHLAR_SHMEM_API void shmem_alltoalls##BITS(void* dest, const void* source, ptrdiff_t dst, \
                                              ptrdiff_t sst, size_t nelems, int PE_start,    \
                                              int logPE_stride, int PE_size, long* pSync);
ASHLAR_SHMEM_DECLARE(32)
ASHLAR_SHMEM_DECLARE(64)
#undef ASHLAR_SHMEM_DECLARE

#define ASHLAR_SHMEM_DECLARE_REDUCTION(NAME, T, STEP, OP)                                     \
  ASHLAR_SHMEM_API void shmem_##NAME##_##STEP##_to_all(T* dest, const T* source, int nreduce, \
                                                       int PE_start, int logPE_stride,        \
                                                       int PE_size, T* pWrk, long* pSync);
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_BITWISE_STEPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_BITWISE_TO_ALL_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_ORDERED_STEPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ORDERED_TO_ALL_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_ARITHMETIC_STEPS(ASHLAR_SHMEM_DECLARE_REDUCTION, NAME, T)
ASHLAR_SHMEM_ARITHMETIC_TO_ALL_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
#undef ASHLAR_SHMEM_DECLARE_REDUCTION

#ifdef __cplusplus
}
#endif
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
