// SPDX-License-Identifier: Apache-2.0
//
// Device memory for C, and for whatever calls C: fast, ordered by streams, cached between uses.
// C11 and C++. What ashlar/allocator.h is for C++, with the same meaning; docs/guide/c_api.md shows
// how to use it. Long because other languages bind to one header.
//
//   ashlar_device* device;                            // of the process; never closed
//   ashlar_allocator* allocator;
//   void* weights;
//   if (ashlar_device_open("cuda", 0, &device) != ASHLAR_OK) …ashlar_last_message() says why…
//   ashlar_allocator_create(device, "engine:paged", &allocator);   // each says how it went
//   ashlar_allocate(allocator, 64 << 20, stream, &weights);        // as this one does
//   …queue work on `stream` that uses weights…
//   ashlar_free(allocator, weights);                  // work already queued on `stream` is safe
//
// RULES FOR EVERY FUNCTION, unless it says otherwise
//
//  Failure   The return value says what kind; ashlar_last_message() says it in words. A call that
//            failed changed nothing, and wrote nothing through its out parameters.
//  Threads   Any function may be called from any thread at any time. Destroying a thing while
//            another thread uses it is the caller's race.
//  Handles   Pointers to opaque structs; null is ASHLAR_INVALID_ARGUMENT, except for the functions
//  that
//            destroy, which do nothing then.
//  Structs   Those with a `struct_size` may grow at their end. The caller sets it to sizeof; a
//            library that is older or newer does with the fields that both know, and the others
//            have their default, which is 0. A field of a newer caller that an older library does
//            not know must be 0: ASHLAR_UNSUPPORTED otherwise.
//  Text      is UTF-8 and ends with a null byte.
//  Callbacks are called with no lock held, from any thread, and may call the library; they must
//            neither throw nor jump out. Where a filter may not, it is said there.
#pragma once

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): C has no other words for these.
#include <stddef.h>  // NOLINT: it is C
#include <stdint.h>  // NOLINT: it is C

#include "ashlar/c/plugin.h"

#define ASHLAR_C_API __attribute__((visibility("default")))
#ifdef __cplusplus
#define ASHLAR_C_NOEXCEPT noexcept
extern "C" {
#else
#define ASHLAR_C_NOEXCEPT
#endif

// --- versions ------------------------------------------------------------------------------------

// Of this header. A library with the same major version and at least this minor one will do.
#define ASHLAR_C_VERSION_MAJOR 1u
#define ASHLAR_C_VERSION_MINOR 0u
#define ASHLAR_C_VERSION (ASHLAR_C_VERSION_MAJOR << 16 | ASHLAR_C_VERSION_MINOR)
// Of the library that is loaded: major << 16 | minor.
ASHLAR_C_API uint32_t ashlar_c_version(void) ASHLAR_C_NOEXCEPT;
// Of Ashlar itself: "0.1.0".
ASHLAR_C_API const char* ashlar_version(void) ASHLAR_C_NOEXCEPT;

// --- failures ------------------------------------------------------------------------------------

typedef int32_t ashlar_status;
enum {
  ASHLAR_OK = 0,
  ASHLAR_OUT_OF_MEMORY = 1,       // of the device, after everything was tried; or of pinned memory
  ASHLAR_INVALID_ARGUMENT = 2,    // the caller's mistake
  ASHLAR_UNSUPPORTED = 3,         // this device, or this version, cannot do that
  ASHLAR_DEVICE_FAULT = 4,        // a driver or system call failed; see ashlar_last_code
  ASHLAR_DEVICE_LOST = 5,         // the device failed for good
  ASHLAR_FORMAT = 6,              // unreadable input
  ASHLAR_HOST_OUT_OF_MEMORY = 7,  // the library itself could get no memory
  ASHLAR_INTERNAL = 8,            // a defect of the library, or of a callback that threw
  ASHLAR_TIMEOUT = 9,             // a deadline passed
  ASHLAR_PEER_LOST = 10           // another rank died or gave up
};
// "ok", "out of memory", …; never null.
ASHLAR_C_API const char* ashlar_status_name(ashlar_status status) ASHLAR_C_NOEXCEPT;
// What the last call of this thread that failed had to say; stays until the next one fails. Never
// null; empty if none failed yet. Very long reports are cut.
ASHLAR_C_API const char* ashlar_last_message(void) ASHLAR_C_NOEXCEPT;
// The same of a driver or system call: its own name for itself (or empty), and its own number.
ASHLAR_C_API const char* ashlar_last_call(void) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API int64_t ashlar_last_code(void) ASHLAR_C_NOEXCEPT;

// --- bytes that the library made -----------------------------------------------------------------

typedef struct ashlar_bytes ashlar_bytes;
// Followed by a null byte that the size does not count. Stays until they are destroyed.
ASHLAR_C_API const char* ashlar_bytes_data(const ashlar_bytes* bytes) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API size_t ashlar_bytes_size(const ashlar_bytes* bytes) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API void ashlar_bytes_destroy(ashlar_bytes* bytes) ASHLAR_C_NOEXCEPT;

// --- devices -------------------------------------------------------------------------------------
// Opened with the first call, for the process, and never closed. The simulated ones are as the
// environment asks for (ASHLAR_SIM_DEVICES, …).

typedef struct ashlar_device ashlar_device;

// "sim", "cuda" or "hip". Of a back end that this machine does not have: ASHLAR_UNSUPPORTED, with
// the reason.
ASHLAR_C_API ashlar_status ashlar_device_count(const char* backend,
                                               size_t* count) ASHLAR_C_NOEXCEPT;
// The same device each time.
ASHLAR_C_API ashlar_status ashlar_device_open(const char* backend, size_t index,
                                              ashlar_device** device) ASHLAR_C_NOEXCEPT;

typedef struct ashlar_device_properties {
  size_t struct_size;
  const char* backend;  // texts stay for good
  const char* name;
  const char* pci_id;  // empty where there is none
  uint8_t uuid[16];
  uint64_t index;
  uint64_t capacity_bytes;
  uint64_t granularity_bytes;  // of virtual memory
  int32_t has_virtual_memory;
  int32_t has_stream_pool;
  int32_t has_capture;
  int32_t greatest_priority;  // stream priorities run from 0 up to this
} ashlar_device_properties;
ASHLAR_C_API ashlar_status ashlar_device_describe(
    const ashlar_device* device, ashlar_device_properties* properties) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_device_memory(ashlar_device* device, size_t* free_bytes,
                                                size_t* total_bytes) ASHLAR_C_NOEXCEPT;
// Waits for all work of the device.
ASHLAR_C_API ashlar_status ashlar_device_synchronize(ashlar_device* device) ASHLAR_C_NOEXCEPT;

// --- streams and events --------------------------------------------------------------------------
// A stream is the driver's own handle, so that a cudaStream_t or hipStream_t can be passed as it
// is; null is the default stream. These functions are for programs that have no driver at hand.

typedef void* ashlar_stream;
typedef uint64_t ashlar_event;

ASHLAR_C_API ashlar_status ashlar_stream_create(ashlar_device* device, int32_t priority,
                                                ashlar_stream* stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_stream_destroy(ashlar_device* device,
                                                 ashlar_stream stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_stream_synchronize(ashlar_device* device,
                                                     ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// 1 when everything queued so far has finished, else 0.
ASHLAR_C_API ashlar_status ashlar_stream_is_idle(ashlar_device* device, ashlar_stream stream,
                                                 int32_t* is_idle) ASHLAR_C_NOEXCEPT;

ASHLAR_C_API ashlar_status ashlar_event_create(ashlar_device* device,
                                               ashlar_event* event) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_event_destroy(ashlar_device* device,
                                                ashlar_event event) ASHLAR_C_NOEXCEPT;
// From now on the event means "all work queued in the stream so far".
ASHLAR_C_API ashlar_status ashlar_event_record(ashlar_device* device, ashlar_event event,
                                               ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Later work of the stream starts after what the event means now. The host does not wait.
ASHLAR_C_API ashlar_status ashlar_event_wait(ashlar_device* device, ashlar_event event,
                                             ashlar_stream stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_event_synchronize(ashlar_device* device,
                                                    ashlar_event event) ASHLAR_C_NOEXCEPT;

// Queued. Host memory is read or written when the work runs, and must live until then.
ASHLAR_C_API ashlar_status ashlar_copy_to_device(ashlar_device* device, void* to, const void* from,
                                                 size_t bytes,
                                                 ashlar_stream stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_copy_to_host(ashlar_device* device, void* to, const void* from,
                                               size_t bytes,
                                               ashlar_stream stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_copy(ashlar_device* device, void* to, const void* from,
                                       size_t bytes, ashlar_stream stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_fill(ashlar_device* device, void* at, uint8_t value, size_t bytes,
                                       ashlar_stream stream) ASHLAR_C_NOEXCEPT;

// --- allocators ----------------------------------------------------------------------------------

typedef struct ashlar_allocator ashlar_allocator;
typedef struct ashlar_block ashlar_block;

// Options as docs/guide/options.md lists them: "engine:paged,max_split_size_mb:512". Null: those
// that the environment asks for. Empty: the defaults.
ASHLAR_C_API ashlar_status ashlar_allocator_create(ashlar_device* device, const char* options,
                                                   ashlar_allocator** allocator) ASHLAR_C_NOEXCEPT;
// Gives all memory back to the device, also what is still in use.
ASHLAR_C_API void ashlar_allocator_destroy(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;

// Memory for work on the stream. 0 bytes give null, and freeing null does nothing. An address that
// is not an allocation's, or was freed: ASHLAR_INVALID_ARGUMENT.
ASHLAR_C_API ashlar_status ashlar_allocate(ashlar_allocator* allocator, size_t bytes,
                                           ashlar_stream stream, void** memory) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_free(ashlar_allocator* allocator, void* memory) ASHLAR_C_NOEXCEPT;
// Another stream uses the memory, too: it is not used again before that stream has got past the
// work that it has when the memory is freed. Its own stream needs no telling.
ASHLAR_C_API ashlar_status ashlar_record_stream(ashlar_allocator* allocator, void* memory,
                                                ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// The same for a stream of another device.
ASHLAR_C_API ashlar_status ashlar_record_stream_of(ashlar_allocator* allocator, void* memory,
                                                   ashlar_device* device,
                                                   ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// What the block really has, and what part of the device's memory it is in. Either may be null.
ASHLAR_C_API ashlar_status ashlar_base_allocation(ashlar_allocator* allocator, void* memory,
                                                  void** base, size_t* bytes) ASHLAR_C_NOEXCEPT;

// The same by handle, which saves looking the address up. A block is not freed by its address, nor
// an address by its block. 0 bytes: ASHLAR_INVALID_ARGUMENT. A block that was freed must not be
// used again; ASHLAR_INVALID_ARGUMENT where it is noticed.
ASHLAR_C_API ashlar_status ashlar_allocate_block(ashlar_allocator* allocator, size_t bytes,
                                                 ashlar_stream stream,
                                                 ashlar_block** block) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_free_block(ashlar_allocator* allocator,
                                             ashlar_block* block) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_record_block_stream(ashlar_allocator* allocator,
                                                      ashlar_block* block,
                                                      ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Null and 0 for null.
ASHLAR_C_API void* ashlar_block_address(const ashlar_block* block) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API size_t ashlar_block_bytes(const ashlar_block* block) ASHLAR_C_NOEXCEPT;

// Gives cached memory back to the device. Waits for pending frees.
ASHLAR_C_API ashlar_status ashlar_trim(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;
// At most this share of the device's capacity, in [0, 1]; 1 lifts the limit.
ASHLAR_C_API ashlar_status ashlar_set_memory_fraction(ashlar_allocator* allocator,
                                                      double fraction) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_memory_fraction(const ashlar_allocator* allocator,
                                                  double* fraction) ASHLAR_C_NOEXCEPT;

// --- options -------------------------------------------------------------------------------------

// Whether an allocator would take the text; if not, the message says why.
ASHLAR_C_API ashlar_status ashlar_check_options(const char* options) ASHLAR_C_NOEXCEPT;
// What of the allocator's options is not the default, as text.
ASHLAR_C_API ashlar_status ashlar_allocator_options(const ashlar_allocator* allocator,
                                                    ashlar_bytes** options) ASHLAR_C_NOEXCEPT;

typedef struct ashlar_option {
  size_t struct_size;
  const char* name;  // texts stay for good
  const char* type;
  const char* unit;  // empty where there is none
  const char* default_text;
  const char* range;
  const char* help;
} ashlar_option;
typedef void (*ashlar_option_visitor)(const ashlar_option* option, void* context);
// Every option there is.
ASHLAR_C_API ashlar_status ashlar_visit_options(ashlar_option_visitor visitor,
                                                void* context) ASHLAR_C_NOEXCEPT;

// --- pools ---------------------------------------------------------------------------------------
// A pool holds its memory apart from the others. {0, 0} is the default pool.

typedef struct ashlar_pool {
  uint64_t capture;
  uint64_t user;
} ashlar_pool;

// Somebody else's functions, loaded from a shared object or given as they are: where the memory of
// a pool comes from. As a whole engine they are named by options (engine:plugin, …).
typedef struct ashlar_plugin ashlar_plugin;
ASHLAR_C_API ashlar_status ashlar_plugin_load(ashlar_device* device, const char* library,
                                              const char* alloc_symbol, const char* free_symbol,
                                              ashlar_plugin** plugin) ASHLAR_C_NOEXCEPT;
// The hooks may be null; the table must stay for good, as the functions do.
ASHLAR_C_API ashlar_status ashlar_plugin_wrap(ashlar_device* device, ashlar_plugin_alloc alloc,
                                              ashlar_plugin_free free,
                                              const struct ashlar_plugin_hooks* hooks,
                                              ashlar_plugin** plugin) ASHLAR_C_NOEXCEPT;
// Pools made with it keep what they need.
ASHLAR_C_API void ashlar_plugin_destroy(ashlar_plugin* plugin) ASHLAR_C_NOEXCEPT;

typedef struct ashlar_pool_options {
  size_t struct_size;
  ashlar_plugin* source;  // null: the device
  int32_t use_on_oom;     // its cached blocks may serve the default pool when nothing else does
  int32_t no_split;       // one block per segment
  int32_t never_remap;    // an address keeps the memory that it first had
  int32_t reserved;       // 0
  const char* tag;        // for ashlar_pause and ashlar_resume; null: none
} ashlar_pool_options;
// Held by the caller, until it is released. Null options: the defaults.
ASHLAR_C_API ashlar_status ashlar_pool_create(ashlar_allocator* allocator,
                                              const ashlar_pool_options* options,
                                              ashlar_pool* pool) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_capture_pool_create(ashlar_allocator* allocator,
                                                      ashlar_pool* pool) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_pool_retain(ashlar_allocator* allocator,
                                              ashlar_pool pool) ASHLAR_C_NOEXCEPT;
// Let go by all who held it, a pool's memory goes back to the device with the next trim.
ASHLAR_C_API ashlar_status ashlar_pool_release(ashlar_allocator* allocator,
                                               ashlar_pool pool) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_pool_use_count(const ashlar_allocator* allocator,
                                                 ashlar_pool pool,
                                                 int32_t* count) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_pool_trim(ashlar_allocator* allocator,
                                            ashlar_pool pool) ASHLAR_C_NOEXCEPT;

// Says whether an allocation on the stream goes to the pool: 0 or not. Called while the allocator
// is locked: it must not call the allocator.
typedef int (*ashlar_route_filter)(ashlar_stream stream, void* context);
// Between begin and end, what the filter accepts is allocated from the pool; without a filter, what
// this thread allocates. Begin also holds the pool, and makes it if there is none of that name.
ASHLAR_C_API ashlar_status ashlar_pool_begin(ashlar_allocator* allocator, ashlar_pool pool,
                                             ashlar_route_filter filter,
                                             void* context) ASHLAR_C_NOEXCEPT;
// Does not let go of the pool.
ASHLAR_C_API ashlar_status ashlar_pool_end(ashlar_allocator* allocator,
                                           ashlar_pool pool) ASHLAR_C_NOEXCEPT;
// Around the time in which streams of the device are capturing.
ASHLAR_C_API ashlar_status ashlar_capture_began(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_capture_ended(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;

// Gives the memory of all pools with this tag back to the device while their blocks keep their
// addresses, and gets memory for them again: docs/guide/sleep.md.
ASHLAR_C_API ashlar_status ashlar_pause(ashlar_allocator* allocator, const char* tag,
                                        int32_t keep_contents) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_resume(ashlar_allocator* allocator,
                                         const char* tag) ASHLAR_C_NOEXCEPT;

// --- statistics ----------------------------------------------------------------------------------

// Never grows.
typedef struct ashlar_stat {
  int64_t current;
  int64_t peak;
  int64_t risen;   // sum of all increases since the last reset
  int64_t fallen;  // sum of all decreases since the last reset
} ashlar_stat;

typedef struct ashlar_stats {
  size_t struct_size;
  ashlar_stat allocation;       // blocks handed out
  ashlar_stat allocated_bytes;  // their sizes
  ashlar_stat active;           // blocks handed out or pending
  ashlar_stat active_bytes;
  ashlar_stat requested_bytes;  // what was asked for, of the active ones
  ashlar_stat reserved_bytes;   // all memory held from the device
  int64_t alloc_retries;        // allocations that needed the cache flushed
  int64_t ooms;                 // failures reported to the caller
  int64_t device_allocs;        // calls that got memory from the device
  int64_t device_frees;         // calls that gave it back
  int64_t stitches;             // blocks that free memory of other places was mapped for
} ashlar_stats;
ASHLAR_C_API ashlar_status ashlar_get_stats(const ashlar_allocator* allocator,
                                            ashlar_stats* stats) ASHLAR_C_NOEXCEPT;

// All there are, under PyTorch's names ("allocated_bytes.all.peak"), in a fixed order. The name
// stays for the duration of the call.
typedef void (*ashlar_stat_visitor)(const char* name, int64_t value, void* context);
ASHLAR_C_API ashlar_status ashlar_visit_stats(const ashlar_allocator* allocator,
                                              ashlar_stat_visitor visitor,
                                              void* context) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_reset_peak_stats(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_reset_total_stats(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;

// --- history and snapshots -----------------------------------------------------------------------

typedef int32_t ashlar_stacks;
enum {  // from where stacks are kept; each includes those before it
  ASHLAR_STACKS_NEVER = 0,
  ASHLAR_STACKS_STATE = 1,  // for what is allocated now
  ASHLAR_STACKS_ALLOC = 2,  // in the entries of allocations, too
  ASHLAR_STACKS_ALL = 3     // and for frees
};
typedef struct ashlar_history_options {
  size_t struct_size;
  size_t max_entries;  // of the ring; 0: about a million
  ashlar_stacks stacks;
  int32_t clear;  // forget what was recorded before
} ashlar_history_options;
// Records from here on; null options: the defaults.
ASHLAR_C_API ashlar_status ashlar_history_start(
    ashlar_allocator* allocator, const ashlar_history_options* options) ASHLAR_C_NOEXCEPT;
// Ends recording, and forgets.
ASHLAR_C_API ashlar_status ashlar_history_stop(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;
// Marks this moment in the history, if it is on: {"name": name, "stage": stage}.
ASHLAR_C_API ashlar_status ashlar_annotate(ashlar_allocator* allocator, const char* name,
                                           const char* stage) ASHLAR_C_NOEXCEPT;

typedef int32_t ashlar_format;
enum {
  ASHLAR_FORMAT_PICKLE = 0,  // as torch.cuda.memory._dump_snapshot writes it
  ASHLAR_FORMAT_JSON = 1     // the same keys
};
// What is held now, and what history there is.
ASHLAR_C_API ashlar_status ashlar_snapshot(ashlar_allocator* allocator, ashlar_format format,
                                           ashlar_bytes** snapshot) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_save_snapshot(ashlar_allocator* allocator,
                                                const char* path) ASHLAR_C_NOEXCEPT;

// --- being watched -------------------------------------------------------------------------------
// Lets `ashlar top`, `ashlar view --live` and Prometheus look at all allocators of the process, on
// this machine only: docs/formats/live.md.

typedef struct ashlar_live ashlar_live;
typedef struct ashlar_live_options {
  size_t struct_size;
  int32_t has_port;   // 0: only the Unix socket, for processes of the same user
  uint16_t port;      // of 127.0.0.1; 0: a free one
  const char* token;  // 16 to 128 letters, digits, - and _; null: one is drawn
} ashlar_live_options;
// Null: the defaults. A port that is taken: ASHLAR_DEVICE_FAULT.
ASHLAR_C_API ashlar_status ashlar_live_start(const ashlar_live_options* options,
                                             ashlar_live** live) ASHLAR_C_NOEXCEPT;
// "http://127.0.0.1:PORT/TOKEN/"; empty without a port.
ASHLAR_C_API ashlar_status ashlar_live_address(const ashlar_live* live,
                                               ashlar_bytes** address) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API void ashlar_live_stop(ashlar_live* live) ASHLAR_C_NOEXCEPT;

// --- hooks ---------------------------------------------------------------------------------------
// They stay as long as the allocator.

typedef int32_t ashlar_action;
enum {
  ASHLAR_ACTION_ALLOC = 0,
  ASHLAR_ACTION_FREE_REQUESTED = 1,
  ASHLAR_ACTION_FREE_COMPLETED = 2,
  ASHLAR_ACTION_SEGMENT_ALLOC = 3,
  ASHLAR_ACTION_SEGMENT_FREE = 4,
  ASHLAR_ACTION_SEGMENT_MAP = 5,
  ASHLAR_ACTION_SEGMENT_UNMAP = 6,
  ASHLAR_ACTION_SNAPSHOT = 7,
  ASHLAR_ACTION_OOM = 8,
  ASHLAR_ACTION_ANNOTATE = 9
};
typedef struct ashlar_trace_entry {
  size_t struct_size;
  ashlar_action action;
  int32_t reserved;
  void* memory;  // of ASHLAR_ACTION_OOM: what the device had free
  size_t bytes;
  ashlar_stream stream;
  ashlar_pool pool;
} ashlar_trace_entry;
typedef void (*ashlar_tracker)(const ashlar_trace_entry* entry, void* context);
// Sees every act, in order; see TraceTracker in ashlar/trace.h.
ASHLAR_C_API ashlar_status ashlar_add_tracker(ashlar_allocator* allocator, ashlar_tracker tracker,
                                              void* context) ASHLAR_C_NOEXCEPT;

typedef struct ashlar_oom_notice {
  size_t struct_size;
  size_t wanted_bytes;  // that could not be had
  size_t limit_bytes;   // our own limit, or the device's capacity
  size_t device_free_bytes;
} ashlar_oom_notice;
typedef void (*ashlar_oom_observer)(const ashlar_oom_notice* notice, void* context);
ASHLAR_C_API ashlar_status ashlar_add_oom_observer(ashlar_allocator* allocator,
                                                   ashlar_oom_observer observer,
                                                   void* context) ASHLAR_C_NOEXCEPT;
// Asked after a miss; not 0 means that something was freed, and looking again may help.
typedef int (*ashlar_free_memory_callback)(void* context);
ASHLAR_C_API ashlar_status ashlar_add_free_memory_callback(ashlar_allocator* allocator,
                                                           ashlar_free_memory_callback callback,
                                                           void* context) ASHLAR_C_NOEXCEPT;

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)
