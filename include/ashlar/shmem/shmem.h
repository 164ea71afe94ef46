// SPDX-License-Identifier: Apache-2.0
//
// OpenSHMEM 1.5 on Ashlar's symmetric memory, for C11 and C++, with scans, sessions and
// shmem_team_ptr of OpenSHMEM 1.6. docs/how-to/shmem.md describes how to start PEs. Memory from
// shmem_malloc and its variants is symmetric, as are the program's global and static variables, but
// not those of shared libraries.
//
// Errors: an error for which OpenSHMEM defines no return value, including an unsupported request,
// prints one line to standard error and terminates all PEs as shmem_global_exit(1) does.
//
// Profiling: every function can also be called by its name with the prefix `p`, such as
// pshmem_init. The name without the prefix is a weak symbol, so a profiling tool can define it and
// call the function with the prefix.
//
// Thread safe, regardless of the level requested from shmem_init_thread. As OpenSHMEM requires,
// collective calls on one team must not run concurrently in several threads of a PE.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// OpenSHMEM prescribes the names and the shape of the macros.

#include "shmem_types.h"

#include "shmem_atomics.h"
#include "shmem_collectives.h"
#include "shmem_rma.h"
#include "shmem_wait.h"

#ifdef __cplusplus
extern "C" {
#endif

// Initialization and exit. Returning 0 from main, or calling exit(0), also finalizes OpenSHMEM. Any
// other exit status acts as shmem_global_exit with that status.
ASHLAR_SHMEM_FUNCTION(void, shmem_init, (void))
ASHLAR_SHMEM_FUNCTION(int, shmem_init_thread, (int requested, int* provided))
ASHLAR_SHMEM_FUNCTION(void, shmem_query_thread, (int* provided))
ASHLAR_SHMEM_FUNCTION(void, shmem_finalize, (void))
ASHLAR_SHMEM_FUNCTION(__attribute__((noreturn)) void, shmem_global_exit, (int status))

ASHLAR_SHMEM_FUNCTION(int, shmem_my_pe, (void))
ASHLAR_SHMEM_FUNCTION(int, shmem_n_pes, (void))
ASHLAR_SHMEM_FUNCTION(void, shmem_info_get_version, (int* major, int* minor))
// REQUIRES: `name` has room for SHMEM_MAX_NAME_LEN characters.
ASHLAR_SHMEM_FUNCTION(void, shmem_info_get_name, (char* name))

// Returns a local address of the PE's copy of `dest`; null if the PE is on another machine or
// `dest` is not symmetric.
ASHLAR_SHMEM_FUNCTION(void*, shmem_ptr, (const void* dest, int pe))
ASHLAR_SHMEM_FUNCTION(int, shmem_pe_accessible, (int pe))
ASHLAR_SHMEM_FUNCTION(int, shmem_addr_accessible, (const void* addr, int pe))

// Memory management. These functions are collective: all PEs must make the same calls in the same
// order, which is checked. They return null on all PEs if the symmetric heap (SHMEM_SYMMETRIC_SIZE)
// is exhausted, or if the alignment is not a power of two or exceeds that of the heap. An
// allocation of 0 bytes, or shmem_free with a null pointer, does nothing and need not be made by
// all PEs. shmem_realloc of a block to 0 bytes frees the block; all PEs must make the call. Hints
// have no effect, but must be the same on all PEs.
ASHLAR_SHMEM_FUNCTION(void*, shmem_malloc, (size_t size))
ASHLAR_SHMEM_FUNCTION(void*, shmem_calloc, (size_t count, size_t size))
ASHLAR_SHMEM_FUNCTION(void*, shmem_align, (size_t alignment, size_t size))
ASHLAR_SHMEM_FUNCTION(void*, shmem_malloc_with_hints, (size_t size, long hints))
ASHLAR_SHMEM_FUNCTION(void*, shmem_realloc, (void* ptr, size_t size))
ASHLAR_SHMEM_FUNCTION(void, shmem_free, (void* ptr))

// Ordering and synchronization.
ASHLAR_SHMEM_FUNCTION(void, shmem_fence, (void))
ASHLAR_SHMEM_FUNCTION(void, shmem_quiet, (void))
ASHLAR_SHMEM_FUNCTION(void, shmem_barrier_all, (void))
ASHLAR_SHMEM_FUNCTION(void, shmem_sync_all, (void))

// Locks. A lock is a symmetric word, initially 0. Waiting PEs acquire it in FIFO order.
ASHLAR_SHMEM_FUNCTION(void, shmem_set_lock, (long* lock))
ASHLAR_SHMEM_FUNCTION(void, shmem_clear_lock, (long* lock))
// Returns 0 if this PE acquired the lock, 1 if the lock is already held.
ASHLAR_SHMEM_FUNCTION(int, shmem_test_lock, (long* lock))

// Teams. Queries return -1 if the team does not exist.
ASHLAR_SHMEM_FUNCTION(int, shmem_team_my_pe, (shmem_team_t team))
ASHLAR_SHMEM_FUNCTION(int, shmem_team_n_pes, (shmem_team_t team))
ASHLAR_SHMEM_FUNCTION(int, shmem_team_get_config,
                      (shmem_team_t team, long config_mask, shmem_team_config_t* config))
ASHLAR_SHMEM_FUNCTION(int, shmem_team_translate_pe,
                      (shmem_team_t src_team, int src_pe, shmem_team_t dest_team))
// Like shmem_ptr, for a PE of a team. Returns null if the team or the PE does not exist.
ASHLAR_SHMEM_FUNCTION(void*, shmem_team_ptr, (shmem_team_t team, const void* dest, int pe))
// Splits are collective over the parent team. They return nonzero if the parent lacks one of the
// PEs. On failure, and on PEs that are not part of the new team, the new team is
// SHMEM_TEAM_INVALID.
ASHLAR_SHMEM_FUNCTION(int, shmem_team_split_strided,
                      (shmem_team_t parent_team, int start, int stride, int size,
                       const shmem_team_config_t* config, long config_mask, shmem_team_t* new_team))
ASHLAR_SHMEM_FUNCTION(int, shmem_team_split_2d,
                      (shmem_team_t parent_team, int xrange,
                       const shmem_team_config_t* xaxis_config, long xaxis_mask,
                       shmem_team_t* xaxis_team, const shmem_team_config_t* yaxis_config,
                       long yaxis_mask, shmem_team_t* yaxis_team))
ASHLAR_SHMEM_FUNCTION(int, shmem_team_sync, (shmem_team_t team))
ASHLAR_SHMEM_FUNCTION(void, shmem_team_destroy, (shmem_team_t team))

// Contexts. In calls on a context, PE numbers are relative to the team of the context.
// shmem_ctx_fence and shmem_ctx_quiet apply to all contexts, or do nothing for SHMEM_CTX_INVALID.
ASHLAR_SHMEM_FUNCTION(int, shmem_ctx_create, (long options, shmem_ctx_t* ctx))
ASHLAR_SHMEM_FUNCTION(int, shmem_team_create_ctx,
                      (shmem_team_t team, long options, shmem_ctx_t* ctx))
ASHLAR_SHMEM_FUNCTION(int, shmem_ctx_get_team, (shmem_ctx_t ctx, shmem_team_t* team))
ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_destroy, (shmem_ctx_t ctx))
ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_fence, (shmem_ctx_t ctx))
ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_quiet, (shmem_ctx_t ctx))

// Sessions announce operations that will follow. They have no effect.
ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_session_start,
                      (shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t* config,
                       long config_mask))
ASHLAR_SHMEM_FUNCTION(void, shmem_ctx_session_stop, (shmem_ctx_t ctx))

// Does nothing.
ASHLAR_SHMEM_FUNCTION(void, shmem_pcontrol, (int level, ...))

// Deprecated functions.
ASHLAR_SHMEM_FUNCTION(void, start_pes, (int npes))
ASHLAR_SHMEM_FUNCTION(int, _my_pe, (void))
ASHLAR_SHMEM_FUNCTION(int, _num_pes, (void))
ASHLAR_SHMEM_FUNCTION(void*, shmalloc, (size_t size))
ASHLAR_SHMEM_FUNCTION(void, shfree, (void* ptr))
ASHLAR_SHMEM_FUNCTION(void*, shmemalign, (size_t alignment, size_t size))
ASHLAR_SHMEM_FUNCTION(void*, shrealloc, (void* ptr, size_t size))
// The cache functions do nothing, because caches are coherent.
ASHLAR_SHMEM_FUNCTION(void, shmem_set_cache_inv, (void))
ASHLAR_SHMEM_FUNCTION(void, shmem_clear_cache_inv, (void))
ASHLAR_SHMEM_FUNCTION(void, shmem_set_cache_line_inv, (void* dest))
ASHLAR_SHMEM_FUNCTION(void, shmem_clear_cache_line_inv, (void* dest))
ASHLAR_SHMEM_FUNCTION(void, shmem_udcflush, (void))
ASHLAR_SHMEM_FUNCTION(void, shmem_udcflush_line, (void* dest))

#ifdef __cplusplus
}
#endif

#include "shmem_generic.h"

#undef ASHLAR_SHMEM_API
#undef ASHLAR_SHMEM_FUNCTION
#undef ASHLAR_SHMEM_WEAK
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
