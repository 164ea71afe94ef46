// SPDX-License-Identifier: Apache-2.0
//
// Put and get. Included by shmem.h.
//
// The remote side must be symmetric; the local side may be any memory. When a put returns, `source`
// may be reused, and the data has arrived after the next shmem_quiet. When a get returns, the data
// has arrived. The _nbi variants behave identically here, although OpenSHMEM promises less for
// them.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ASHLAR_SHMEM_DECLARE(NAME, T)                                                             \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_p, (T * dest, T value, int pe))                      \
  ASHLAR_SHMEM_FUNCTION(T, shmem_##NAME##_g, (const T* source, int pe))                           \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_p, (shmem_ctx_t ctx, T * dest, T value, int pe)) \
  ASHLAR_SHMEM_FUNCTION(T, shmem_ctx_##NAME##_g, (shmem_ctx_t ctx, const T* source, int pe))
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE

// Functions on contiguous elements; the name gives the element type or its number of bits.
#define ASHLAR_SHMEM_DECLARE_BLOCKS(NAME, T)                                                    \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME, (T * dest, const T* source, size_t nelems, int pe)) \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_nbi,                                               \
                        (T * dest, const T* source, size_t nelems, int pe))                     \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME,                                                 \
                        (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems, int pe))    \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_nbi,                                           \
                        (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems, int pe))
// Copies `nelems` elements, with a stride of `sst` elements in the source and of `tst` elements in
// the destination.
#define ASHLAR_SHMEM_DECLARE_STRIDES(NAME, T)                                                      \
  ASHLAR_SHMEM_FUNCTION(                                                                           \
      void, shmem_##NAME,                                                                          \
      (T * dest, const T* source, ptrdiff_t tst, ptrdiff_t sst, size_t nelems, int pe))            \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME,                                                    \
                        (shmem_ctx_t ctx, T * dest, const T* source, ptrdiff_t tst, ptrdiff_t sst, \
                         size_t nelems, int pe))
// Puts the data, then updates the PE's word at `sig_addr`: SHMEM_SIGNAL_SET stores `signal`,
// SHMEM_SIGNAL_ADD adds it.
#define ASHLAR_SHMEM_DECLARE_SIGNALS(NAME, T)                                          \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME,                                            \
                        (T * dest, const T* source, size_t nelems, uint64_t* sig_addr, \
                         uint64_t signal, int sig_op, int pe))                         \
  ASHLAR_SHMEM_FUNCTION(void, shmem_##NAME##_nbi,                                      \
                        (T * dest, const T* source, size_t nelems, uint64_t* sig_addr, \
                         uint64_t signal, int sig_op, int pe))                         \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME,                                        \
                        (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems,    \
                         uint64_t* sig_addr, uint64_t signal, int sig_op, int pe))     \
  ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_##NAME##_nbi,                                  \
                        (shmem_ctx_t ctx, T * dest, const T* source, size_t nelems,    \
                         uint64_t* sig_addr, uint64_t signal, int sig_op, int pe))

#define ASHLAR_SHMEM_DECLARE(NAME, T)          \
  ASHLAR_SHMEM_DECLARE_BLOCKS(NAME##_put, T)   \
  ASHLAR_SHMEM_DECLARE_BLOCKS(NAME##_get, T)   \
  ASHLAR_SHMEM_DECLARE_STRIDES(NAME##_iput, T) \
  ASHLAR_SHMEM_DECLARE_STRIDES(NAME##_iget, T) \
  ASHLAR_SHMEM_DECLARE_SIGNALS(NAME##_put_signal, T)
ASHLAR_SHMEM_RMA_TYPES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE

#define ASHLAR_SHMEM_DECLARE(BITS, BYTES)        \
  ASHLAR_SHMEM_DECLARE_BLOCKS(put##BITS, void)   \
  ASHLAR_SHMEM_DECLARE_BLOCKS(get##BITS, void)   \
  ASHLAR_SHMEM_DECLARE_STRIDES(iput##BITS, void) \
  ASHLAR_SHMEM_DECLARE_STRIDES(iget##BITS, void) \
  ASHLAR_SHMEM_DECLARE_SIGNALS(put##BITS##_signal, void)
ASHLAR_SHMEM_SIZES(ASHLAR_SHMEM_DECLARE)
#undef ASHLAR_SHMEM_DECLARE
// Functions on bytes.
ASHLAR_SHMEM_DECLARE_BLOCKS(putmem, void)
ASHLAR_SHMEM_DECLARE_BLOCKS(getmem, void)
ASHLAR_SHMEM_DECLARE_SIGNALS(putmem_signal, void)
#undef ASHLAR_SHMEM_DECLARE_BLOCKS
#undef ASHLAR_SHMEM_DECLARE_STRIDES
#undef ASHLAR_SHMEM_DECLARE_SIGNALS

// Reads a signal word of this PE.
ASHLAR_SHMEM_FUNCTION(uint64_t, shmem_signal_fetch, (const uint64_t* sig_addr))

#ifdef __cplusplus
}
#endif
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
