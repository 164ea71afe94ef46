// SPDX-License-Identifier: Apache-2.0
//
// OpenSHMEM 1.5 on Ashlar's symmetric memory, for C11 and C++. docs/how-to/shmem.md describes how
// to start PEs. Differences from the specification:
//
//   - Only memory from shmem_malloc and its variants is symmetric. Static and global variables are
//     not: shmem_addr_accessible returns 0 for them, and calls that need symmetric memory fail.
//   - Errors: OpenSHMEM has few error codes. Any other error, including an unsupported request,
//     prints one line to standard error and terminates all PEs as shmem_global_exit(1) does.
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
ASHLAR_SHMEM_API void shmem_init(void);
ASHLAR_SHMEM_API int shmem_init_thread(int requested, int* provided);
ASHLAR_SHMEM_API void shmem_query_thread(int* provided);
ASHLAR_SHMEM_API void shmem_finalize(void);
ASHLAR_SHMEM_API __attribute__((noreturn)) void shmem_global_exit(int status);

ASHLAR_SHMEM_API int shmem_my_pe(void);
ASHLAR_SHMEM_API int shmem_n_pes(void);
ASHLAR_SHMEM_API void shmem_info_get_version(int* major, int* minor);
// REQUIRES: `name` has room for SHMEM_MAX_NAME_LEN characters.
ASHLAR_SHMEM_API void shmem_info_get_name(char* name);

// Returns a local address of the PE's copy of `dest`; null if the PE is on another machine or
// `dest` is not symmetric.
ASHLAR_SHMEM_API void* shmem_ptr(const void* dest, int pe);
ASHLAR_SHMEM_API int shmem_pe_accessible(int pe);
ASHLAR_SHMEM_API int shmem_addr_accessible(const void* addr, int pe);

// Memory management. These functions are collective: all PEs must make the same calls in the same
// order, which is checked. They return null on all PEs if the symmetric heap (SHMEM_SYMMETRIC_SIZE)
// is exhausted.
ASHLAR_SHMEM_API void* shmem_malloc(size_t size);
ASHLAR_SHMEM_API void* shmem_calloc(size_t count, size_t size);
ASHLAR_SHMEM_API void* shmem_align(size_t alignment, size_t size);
ASHLAR_SHMEM_API void* shmem_malloc_with_hints(size_t size, long hints);
ASHLAR_SHMEM_API void* shmem_realloc(void* ptr, size_t size);
ASHLAR_SHMEM_API void shmem_free(void* ptr);

// Ordering and synchronization.
ASHLAR_SHMEM_API void shmem_fence(void);
ASHLAR_SHMEM_API void shmem_quiet(void);
ASHLAR_SHMEM_API void shmem_barrier_all(void);
ASHLAR_SHMEM_API void shmem_sync_all(void);

// Locks. A lock is a symmetric word, initially 0. Waiting PEs acquire it in FIFO order.
ASHLAR_SHMEM_API void shmem_set_lock(long* lock);
ASHLAR_SHMEM_API void shmem_clear_lock(long* lock);
// Returns 0 if this PE acquired the lock, 1 if the lock is already held.
ASHLAR_SHMEM_API int shmem_test_lock(long* lock);

// Teams. Queries return -1 if the team does not exist.
ASHLAR_SHMEM_API int shmem_team_my_pe(shmem_team_t team);
ASHLAR_SHMEM_API int shmem_team_n_pes(shmem_team_t team);
ASHLAR_SHMEM_API int shmem_team_get_config(shmem_team_t team, long config_mask,
                                           shmem_team_config_t* config);
ASHLAR_SHMEM_API int shmem_team_translate_pe(shmem_team_t src_team, int src_pe,
                                             shmem_team_t dest_team);
// Splits are collective over the parent team. They return nonzero if the parent lacks one of the
// PEs. On failure, and on PEs that are not part of the new team, the new team is
// SHMEM_TEAM_INVALID.
ASHLAR_SHMEM_API int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride,
                                              int size, const shmem_team_config_t* config,
                                              long config_mask, shmem_team_t* new_team);
ASHLAR_SHMEM_API int shmem_team_split_2d(shmem_team_t parent_team, int xrange,
                                         const shmem_team_config_t* xaxis_config, long xaxis_mask,
                                         shmem_team_t* xaxis_team,
                                         const shmem_team_config_t* yaxis_config, long yaxis_mask,
                                         shmem_team_t* yaxis_team);
ASHLAR_SHMEM_API int shmem_team_sync(shmem_team_t team);
ASHLAR_SHMEM_API void shmem_team_destroy(shmem_team_t team);

// Contexts. In calls on a context, PE numbers are relative to its team. shmem_ctx_fence and
// shmem_ctx_quiet apply to all contexts.
ASHLAR_SHMEM_API int shmem_ctx_create(long options, shmem_ctx_t* ctx);
ASHLAR_SHMEM_API int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t* ctx);
ASHLAR_SHMEM_API int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team);
ASHLAR_SHMEM_API void shmem_ctx_destroy(shmem_ctx_t ctx);
ASHLAR_SHMEM_API void shmem_ctx_fence(shmem_ctx_t ctx);
ASHLAR_SHMEM_API void shmem_ctx_quiet(shmem_ctx_t ctx);

// Does nothing.
ASHLAR_SHMEM_API void shmem_pcontrol(int level, ...);

// Deprecated functions.
ASHLAR_SHMEM_API void start_pes(int npes);
ASHLAR_SHMEM_API int _my_pe(void);
ASHLAR_SHMEM_API int _num_pes(void);
ASHLAR_SHMEM_API void* shmalloc(size_t size);
ASHLAR_SHMEM_API void shfree(void* ptr);

#ifdef __cplusplus
}
#endif

#include "shmem_generic.h"

#undef ASHLAR_SHMEM_API
// NOLINTEND(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming)
