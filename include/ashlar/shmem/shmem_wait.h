// SPDX-License-Identifier: Apache-2.0
//
// Waits for, and tests of, words in this PE's symmetric memory that other PEs change. Included by
// shmem.h. Words with a nonzero entry in `status` are excluded; a null `status` excludes no word.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ASHLAR_SHMEM_DECLARE(NAME, T)                                                          \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_wait_until, (T * ivar, int cmp, T cmp_value))     \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##NAME##_test, (T * ivar, int cmp, T cmp_value))            \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_wait_until_all,                                   \
                        (T * ivars, size_t nelems, const int* status, int cmp, T cmp_value))   \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##NAME##_test_all,                                          \
                        (T * ivars, size_t nelems, const int* status, int cmp, T cmp_value))   \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_wait_until_all_vector,                            \
                        (T * ivars, size_t nelems, const int* status, int cmp, T* cmp_values)) \
  ASHLAR_SHMEM_FUNCTION(int, shmem_##NAME##_test_all_vector,                                   \
                        (T * ivars, size_t nelems, const int* status, int cmp, T* cmp_values)) \
  ASHLAR_SHMEM_FUNCTION(size_t, shmem_##NAME##_wait_until_any,                                 \
                        (T * ivars, size_t nelems, const int* status, int cmp, T cmp_value))   \
  ASHLAR_SHMEM_FUNCTION(size_t, shmem_##NAME##_test_any,                                       \
                        (T * ivars, size_t nelems, const int* status, int cmp, T cmp_value))   \
  ASHLAR_SHMEM_FUNCTION(size_t, shmem_##NAME##_wait_until_any_vector,                          \
                        (T * ivars, size_t nelems, const int* status, int cmp, T* cmp_values)) \
  ASHLAR_SHMEM_FUNCTION(size_t, shmem_##NAME##_test_any_vector,                                \
                        (T * ivars, size_t nelems, const int* status, int cmp, T* cmp_values)) \
  ASHLAR_SHMEM_FUNCTION(                                                                       \
      size_t, shmem_##NAME##_wait_until_some,                                                  \
      (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, T cmp_value))   \
  ASHLAR_SHMEM_FUNCTION(                                                                       \
      size_t, shmem_##NAME##_test_some,                                                        \
      (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, T cmp_value))   \
  ASHLAR_SHMEM_FUNCTION(                                                                       \
      size_t, shmem_##NAME##_wait_until_some_vector,                                           \
      (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, T* cmp_values)) \
  ASHLAR_SHMEM_FUNCTION(                                                                       \
      size_t, shmem_##NAME##_test_some_vector,                                                 \
      (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, T* cmp_values))
ASHLAR_SHMEM_WAIT_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE

// Waits until the signal word satisfies the comparison, and returns its value.
ASHLAR_SHMEM_FUNCTION(uint64_t, shmem_signal_wait_until,
                      (uint64_t * sig_addr, int cmp, uint64_t cmp_value))

// Deprecated: waits until the word differs from `cmp_value`.
#define ASHLAR_SHMEM_DECLARE(NAME, T) \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_wait, (T * ivar, T cmp_value))
ASHLAR_SHMEM_SIGNED(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
ASHLAR_SHMEM_FUNCTION(void, shmem_wait, (long* ivar, long cmp_value))
ASHLAR_SHMEM_FUNCTION(void, shmem_wait_until, (long* ivar, int cmp, long cmp_value))

#ifdef __cplusplus
}
#endif
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
