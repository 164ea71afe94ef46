// SPDX-License-Identifier: Apache-2.0
//
// The C API of symmetric memory, for C11, C++ and languages that bind to C. It mirrors
// ashlar/symmetric.h, which describes the operations; the rules of ashlar/c/ashlar.h apply.
//
//   ashlar_symm_heap* heap;                                 // on every rank; check every status
//   ashlar_symm_heap_create(NULL, &heap) …
//   ashlar_symm_group_join_from_environment(heap, NULL, &group) …
//   ashlar_symm_buffer_allocate(heap, 4096, &buffer) …
//   ashlar_symm_group_rendezvous(group, ashlar_symm_buffer_data(buffer), 0, &handle) …
//   ashlar_symm_all_reduce(handle, 1024, ASHLAR_SYMM_F32, ASHLAR_SYMM_SUM, NULL) …   in place
//
// A timeout is in milliseconds; 0 waits without limit. Objects may be destroyed in any order,
// because each object keeps the objects that it uses alive.
//
// Errors: functions return a status code. ASHLAR_TIMEOUT and ASHLAR_PEER_LOST name the ranks.
#pragma once

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): this is C.
#include <stddef.h>  // NOLINT: this is C
#include <stdint.h>  // NOLINT: this is C

#include "ashlar/c/ashlar.h"

#ifdef __cplusplus
extern "C" {
#endif

// Stores.

typedef struct ashlar_symm_store ashlar_symm_store;

// Opens a store in a folder that belongs to this user.
ASHLAR_C_API ashlar_status
ashlar_symm_store_open_folder(const char* folder, ashlar_symm_store** store) ASHLAR_C_NOEXCEPT;
// Connects to the TCP store at `host` and `port`.
ASHLAR_C_API ashlar_status ashlar_symm_store_open_tcp(const char* host, uint16_t port,
                                                      const char* token, int64_t timeout_ms,
                                                      ashlar_symm_store** store) ASHLAR_C_NOEXCEPT;
// Serves a TCP store. If `*port` is 0, the system chooses a port; `*port` becomes the port in use.
ASHLAR_C_API ashlar_status ashlar_symm_store_host_tcp(const char* host, uint16_t* port,
                                                      const char* token,
                                                      ashlar_symm_store** store) ASHLAR_C_NOEXCEPT;

// The functions of a store that the caller implements. symm::Store (ashlar/store.h) describes the
// operations. Functions are called from several threads at the same time. They return by the
// timeout, which is negative if there is no limit, and return ASHLAR_OK or the kind of error.
typedef struct ashlar_symm_store_functions {
  size_t struct_size;
  void* context;  // passed to all functions
  // A time to live of 0 means that the key does not expire.
  ashlar_status (*set)(void* context, const char* key, const void* value, size_t bytes,
                       int64_t time_to_live_ms, int64_t timeout_ms);
  // Calls `receive` once for each key that exists, with the key's index, before it returns.
  ashlar_status (*try_get)(void* context, const char* const* keys, size_t key_count,
                           int64_t timeout_ms,
                           void (*receive)(void* receiver, size_t index, const void* value,
                                           size_t bytes),
                           void* receiver);
  ashlar_status (*add)(void* context, const char* key, int64_t amount, int64_t time_to_live_ms,
                       int64_t timeout_ms, int64_t* value);
  ashlar_status (*erase)(void* context, const char* key, int64_t timeout_ms, int32_t* existed);
} ashlar_symm_store_functions;

// Makes a store from the caller's functions, which are copied. `context` must stay valid until the
// store is closed.
ASHLAR_C_API ashlar_status ashlar_symm_store_create(const ashlar_symm_store_functions* functions,
                                                    ashlar_symm_store** store) ASHLAR_C_NOEXCEPT;
// Waits for the calls of the store's functions that are in progress. Later operations fail without
// calling the functions. Does nothing for other stores. Must not be called by these functions.
ASHLAR_C_API void ashlar_symm_store_close(ashlar_symm_store* store) ASHLAR_C_NOEXCEPT;

// Groups keep their store open. Stores with functions of the caller must be closed before `context`
// becomes invalid.
ASHLAR_C_API void ashlar_symm_store_destroy(ashlar_symm_store* store) ASHLAR_C_NOEXCEPT;

// Heaps and buffers.

typedef struct ashlar_symm_heap ashlar_symm_heap;
typedef struct ashlar_symm_buffer ashlar_symm_buffer;

// Fields that are 0 or null have the defaults of symm::HeapOptions.
typedef struct ashlar_symm_heap_options {
  size_t struct_size;
  ashlar_device* device;  // null: host memory
  size_t pad_bytes;
  int64_t heartbeat_ms;
  int64_t lease_ms;
} ashlar_symm_heap_options;

// `options` may be null.
ASHLAR_C_API ashlar_status ashlar_symm_heap_create(const ashlar_symm_heap_options* options,
                                                   ashlar_symm_heap** heap) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API void ashlar_symm_heap_destroy(ashlar_symm_heap* heap) ASHLAR_C_NOEXCEPT;

ASHLAR_C_API ashlar_status ashlar_symm_buffer_allocate(
    ashlar_symm_heap* heap, size_t bytes, ashlar_symm_buffer** buffer) ASHLAR_C_NOEXCEPT;
// Returns the address of the buffer; null if `buffer` is null.
ASHLAR_C_API void* ashlar_symm_buffer_data(const ashlar_symm_buffer* buffer) ASHLAR_C_NOEXCEPT;
// Frees the buffer. Handles of the buffer keep its memory mapped.
ASHLAR_C_API void ashlar_symm_buffer_destroy(ashlar_symm_buffer* buffer) ASHLAR_C_NOEXCEPT;

// Groups.

typedef struct ashlar_symm_group ashlar_symm_group;
typedef struct ashlar_symm_handle ashlar_symm_handle;

// Fields that are 0 or null have the defaults of symm::GroupOptions.
typedef struct ashlar_symm_group_options {
  size_t struct_size;
  int32_t rank;
  int32_t world_size;
  const char* name;
  const char* job;
  int32_t channel_count;
  int32_t skip_measurement;  // nonzero: join does not measure thresholds
  int64_t timeout_ms;        // of the call
  size_t one_shot_bytes;
  int32_t may_share_device;
} ashlar_symm_group_options;

// Joins a group. Collective.
ASHLAR_C_API ashlar_status ashlar_symm_group_join(ashlar_symm_heap* heap, ashlar_symm_store* store,
                                                  const ashlar_symm_group_options* options,
                                                  ashlar_symm_group** group) ASHLAR_C_NOEXCEPT;
// Joins the group of all ranks of the job that the environment describes (ashlar/launch.h).
// `options` may be null; its rank, world_size and job are ignored. Collective.
ASHLAR_C_API ashlar_status ashlar_symm_group_join_from_environment(
    ashlar_symm_heap* heap, const ashlar_symm_group_options* options,
    ashlar_symm_group** group) ASHLAR_C_NOEXCEPT;
// Creates a group of `rank_count` ranks of this group. Collective among these ranks.
ASHLAR_C_API ashlar_status ashlar_symm_group_sub_group(
    const ashlar_symm_group* group, const char* name, const int32_t* ranks, size_t rank_count,
    int64_t timeout_ms, ashlar_symm_group** sub_group) ASHLAR_C_NOEXCEPT;
// The next two functions return -1 if `group` is null.
ASHLAR_C_API int32_t ashlar_symm_group_rank(const ashlar_symm_group* group) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API int32_t ashlar_symm_group_world_size(const ashlar_symm_group* group) ASHLAR_C_NOEXCEPT;
// Returns ASHLAR_OK, or the error with which the group has failed.
ASHLAR_C_API ashlar_status ashlar_symm_group_failure(const ashlar_symm_group* group)
    ASHLAR_C_NOEXCEPT;
// Returns a handle to all ranks' memory of the allocation that contains `address`. The first call
// for an allocation is collective.
ASHLAR_C_API ashlar_status
ashlar_symm_group_rendezvous(ashlar_symm_group* group, const void* address, int64_t timeout_ms,
                             ashlar_symm_handle** handle) ASHLAR_C_NOEXCEPT;
// Waits for a stream in which work of the group is queued, and reports its error.
ASHLAR_C_API ashlar_status ashlar_symm_group_finish(ashlar_symm_group* group,
                                                    ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Leaves the group. Collective. The group must still be destroyed.
ASHLAR_C_API ashlar_status ashlar_symm_group_leave(ashlar_symm_group* group,
                                                   int64_t timeout_ms) ASHLAR_C_NOEXCEPT;
// Without a prior leave, the group fails for the other ranks.
ASHLAR_C_API void ashlar_symm_group_destroy(ashlar_symm_group* group) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API void ashlar_symm_handle_destroy(ashlar_symm_handle* handle) ASHLAR_C_NOEXCEPT;

// Memory of other ranks. Offsets are in bytes, relative to the address of the rendezvous.

// Sets `*memory` to the address of a rank's memory at the handle's offset. The address is valid as
// long as the handle. ASHLAR_UNSUPPORTED if the rank is on another machine and its memory is not
// mapped here.
ASHLAR_C_API ashlar_status ashlar_symm_view(const ashlar_symm_handle* handle, int32_t rank,
                                            void** memory) ASHLAR_C_NOEXCEPT;
// Sets `*pad` and `*bytes` to the signal pad of a rank, which is reserved for the user. Fails like
// ashlar_symm_view.
ASHLAR_C_API ashlar_status ashlar_symm_signal_pad(const ashlar_symm_handle* handle, int32_t rank,
                                                  void** pad, size_t* bytes) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_symm_put(const ashlar_symm_handle* handle, int32_t to,
                                           const void* from, size_t bytes,
                                           int64_t offset) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_symm_get(const ashlar_symm_handle* handle, int32_t from, void* to,
                                           size_t bytes, int64_t offset) ASHLAR_C_NOEXCEPT;
// Like ashlar_symm_put, but the bytes have arrived only after ashlar_symm_quiet.
ASHLAR_C_API ashlar_status ashlar_symm_post(const ashlar_symm_handle* handle, int32_t to,
                                            const void* from, size_t bytes,
                                            int64_t offset) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_symm_fence(const ashlar_symm_handle* handle) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_symm_quiet(const ashlar_symm_handle* handle) ASHLAR_C_NOEXCEPT;

// Barriers and signals. `options` may be null.

typedef struct ashlar_symm_signal_options {
  size_t struct_size;
  int32_t channel;
  int64_t timeout_ms;
  const ashlar_stream* stream;  // null: the call blocks; else the operation is queued in *stream
} ashlar_symm_signal_options;

ASHLAR_C_API ashlar_status ashlar_symm_barrier(
    const ashlar_symm_handle* handle, const ashlar_symm_signal_options* options) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_symm_put_signal(const ashlar_symm_handle* handle, int32_t to,
                                                  const ashlar_symm_signal_options* options)
    ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_symm_wait_signal(const ashlar_symm_handle* handle, int32_t from,
                                                   const ashlar_symm_signal_options* options)
    ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status
ashlar_symm_add_signal(const ashlar_symm_handle* handle, int32_t to, uint64_t amount,
                       const ashlar_symm_signal_options* options) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status
ashlar_symm_wait_for_value(const ashlar_symm_handle* handle, int32_t from, uint64_t value,
                           const ashlar_symm_signal_options* options) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_symm_counter_value(const ashlar_symm_handle* handle, int32_t from,
                                                     int32_t channel,
                                                     uint64_t* value) ASHLAR_C_NOEXCEPT;

// Collectives, on this rank's memory from offset_bytes on. `options` may be null, unless `out` is
// required.

typedef struct ashlar_symm_collective_options {
  size_t struct_size;
  int64_t offset_bytes;
  void* out;  // destination outside of the handle's memory; null: in place
  int64_t timeout_ms;
  const ashlar_stream* stream;  // null: the call blocks; else the operation is queued in *stream
} ashlar_symm_collective_options;

typedef int32_t ashlar_symm_type;
enum {
  ASHLAR_SYMM_F32 = 0,
  ASHLAR_SYMM_F16 = 1,
  ASHLAR_SYMM_BF16 = 2,
  ASHLAR_SYMM_F64 = 3,
  ASHLAR_SYMM_I8 = 4,
  ASHLAR_SYMM_I16 = 5,
  ASHLAR_SYMM_I32 = 6,
  ASHLAR_SYMM_I64 = 7,
  ASHLAR_SYMM_U8 = 8,
  ASHLAR_SYMM_U16 = 9,
  ASHLAR_SYMM_U32 = 10,
  ASHLAR_SYMM_U64 = 11
};
typedef int32_t ashlar_symm_op;
enum {
  ASHLAR_SYMM_SUM = 0,
  ASHLAR_SYMM_MIN = 1,
  ASHLAR_SYMM_MAX = 2,
  ASHLAR_SYMM_PROD = 3,
  ASHLAR_SYMM_AVG = 4,
  ASHLAR_SYMM_AND = 5,
  ASHLAR_SYMM_OR = 6,
  ASHLAR_SYMM_XOR = 7
};

ASHLAR_C_API ashlar_status ashlar_symm_all_reduce(
    const ashlar_symm_handle* handle, int64_t count, ashlar_symm_type type, ashlar_symm_op op,
    const ashlar_symm_collective_options* options) ASHLAR_C_NOEXCEPT;
// The root requires `out`.
ASHLAR_C_API ashlar_status ashlar_symm_reduce(
    const ashlar_symm_handle* handle, int64_t count, int32_t root, ashlar_symm_type type,
    ashlar_symm_op op, const ashlar_symm_collective_options* options) ASHLAR_C_NOEXCEPT;
// Requires `out`. `count` is the number of elements of one rank's part.
ASHLAR_C_API ashlar_status ashlar_symm_reduce_scatter(
    const ashlar_symm_handle* handle, int64_t count, ashlar_symm_type type, ashlar_symm_op op,
    const ashlar_symm_collective_options* options) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status
ashlar_symm_all_gather(const ashlar_symm_handle* handle, const void* in, int64_t bytes,
                       const ashlar_symm_collective_options* options) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status
ashlar_symm_broadcast(const ashlar_symm_handle* handle, int64_t bytes, int32_t root,
                      const ashlar_symm_collective_options* options) ASHLAR_C_NOEXCEPT;
// Requires `out`. `bytes` is the size of the part for each rank.
ASHLAR_C_API ashlar_status ashlar_symm_all_to_all(const ashlar_symm_handle* handle, int64_t bytes,
                                                  const ashlar_symm_collective_options* options)
    ASHLAR_C_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)
