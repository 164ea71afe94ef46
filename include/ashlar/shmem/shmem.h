// SPDX-License-Identifier: Apache-2.0
//
// OpenSHMEM 1.5 over Ashlar's symmetric memory: for programs and test suites that are written
// against it. docs/guide/shmem.md says how PEs are started, and what differs:
//
//   - Symmetric is what shmem_malloc and its kind return. Static and global variables are not:
//     shmem_addr_accessible answers 0 for them, and calls that need symmetric memory refuse them.
//   - OpenSHMEM has no codes for errors: whatever goes wrong is said in a sentence on standard
//     error, and ends all PEs with status 1, as shmem_global_exit(1) does.
//   - Nothing here is silent: a call that cannot be done ends so, too.
//
// C11, and C++. Thread safe as asked for in shmem_init_thread; all of it is, in any case.
#pragma once
// NOLINTBEGIN(bugprone-macro-parentheses, modernize-use-using, readability-identifier-naming):
// the names and the shape of macros are OpenSHMEM's.

#include "shmem_types.h"

#include "shmem_atomics.h"
#include "shmem_collectives.h"
#include "shmem_rma.h"
#include "shmem_waiting.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- beginning and end. Leaving main, or exit(0), finalizes; exit with another status is a
// shmem_global_exit with it.
ASHLAR_SHMEM_API void shmem_init(void);
ASHLAR_SHMEM_API int shmem_init_thread(int requested, int* provided);
ASHLAR_SHMEM_API void shmem_query_thread(int* provided);
ASHLAR_SHMEM_API void shmem_finalize(void);
ASHLAR_SHMEM_API __attribute__((noreturn)) void shmem_global_exit(int status);

ASHLAR_SHMEM_API int shmem_my_pe(void);
ASHLAR_SHMEM_API int shmem_n_pes(void);
ASHLAR_SHMEM_API void shmem_info_get_version(int* major, int* minor);
// REQUIRES: room for SHMEM_MAX_NAME_LEN characters.
ASHLAR_SHMEM_API void shmem_info_get_name(char* name);

// Where that PE's copy is for this one; null: on another machine, or not symmetric.
ASHLAR_SHMEM_API void* shmem_ptr(const void* dest, int pe);
ASHLAR_SHMEM_API int shmem_pe_accessible(int pe);
ASHLAR_SHMEM_API int shmem_addr_accessible(const void* addr, int pe);

// --- memory. Collective: all PEs ask for the same in the same order, which is checked. Null: the
// symmetric heap (SHMEM_SYMMETRIC_SIZE) has no room for it, on any PE.
ASHLAR_SHMEM_API void* shmem_malloc(size_t size);
ASHLAR_SHMEM_API void* shmem_calloc(size_t count, size_t size);
ASHLAR_SHMEM_API void* shmem_align(size_t alignment, size_t size);
ASHLAR_SHMEM_API void* shmem_malloc_with_hints(size_t size, long hints);
ASHLAR_SHMEM_API void* shmem_realloc(void* ptr, size_t size);
ASHLAR_SHMEM_API void shmem_free(void* ptr);

// --- order, and meeting
ASHLAR_SHMEM_API void shmem_fence(void);
ASHLAR_SHMEM_API void shmem_quiet(void);
ASHLAR_SHMEM_API void shmem_barrier_all(void);
ASHLAR_SHMEM_API void shmem_sync_all(void);

// --- locks: a symmetric word that is 0 at first; whoever asks first gets it first
ASHLAR_SHMEM_API void shmem_set_lock(long* lock);
ASHLAR_SHMEM_API void shmem_clear_lock(long* lock);
// 0: it is this PE's now. 1: it is somebody's.
ASHLAR_SHMEM_API int shmem_test_lock(long* lock);

// --- teams
ASHLAR_SHMEM_API int shmem_team_my_pe(shmem_team_t team);  // -1: no such team, here and below
ASHLAR_SHMEM_API int shmem_team_n_pes(shmem_team_t team);
ASHLAR_SHMEM_API int shmem_team_get_config(shmem_team_t team, long config_mask,
                                           shmem_team_config_t* config);
ASHLAR_SHMEM_API int shmem_team_translate_pe(shmem_team_t src_team, int src_pe,
                                             shmem_team_t dest_team);
// Collective over the parent. Not 0: the parent has no such PEs; the new team is SHMEM_TEAM_INVALID
// then, and for those who are not in it.
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

// --- contexts: PEs of calls on one are numbered as in its team; fences and quiets count for all
ASHLAR_SHMEM_API int shmem_ctx_create(long options, shmem_ctx_t* ctx);
ASHLAR_SHMEM_API int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t* ctx);
ASHLAR_SHMEM_API int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team);
ASHLAR_SHMEM_API void shmem_ctx_destroy(shmem_ctx_t ctx);
ASHLAR_SHMEM_API void shmem_ctx_fence(shmem_ctx_t ctx);
ASHLAR_SHMEM_API void shmem_ctx_quiet(shmem_ctx_t ctx);

// For profilers, of which there is none here.
ASHLAR_SHMEM_API void shmem_pcontrol(int level, ...);

// --- deprecated
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
