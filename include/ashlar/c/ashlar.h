// SPDX-License-Identifier: Apache-2.0
//
// The C API for Ashlar's stream-ordered, caching allocator of device memory, for C11, C++ and
// languages that bind to C. The API mirrors ashlar/allocator.h; docs/reference/c_api.md shows how
// to use it. The file is long because bindings for other languages are simpler to make from one
// header.
//
//   ashlar_device* device;                            // owned by the process; never closed
//   ashlar_allocator* allocator;
//   void* weights;
//   if (ashlar_device_open("cuda", 0, &device) != ASHLAR_OK) …see ashlar_last_message()…
//   ashlar_allocator_create(device, "engine:paged", &allocator);   // check every status
//   ashlar_allocate(allocator, 64 << 20, stream, &weights);        // bytes, stream
//   …queue work on `stream` that uses weights…
//   ashlar_free(allocator, weights);                  // work already queued on `stream` is safe
//
// RULES FOR EVERY FUNCTION, unless documented otherwise
//
//  Errors    The return value is the kind of error; ashlar_last_message() describes it. A call that
//            failed changed nothing and did not write its out parameters, except that it may have
//            released cached memory and completed pending frees. A free that fails with
//            ASHLAR_DEVICE_FAULT or ASHLAR_DEVICE_LOST has taken the memory back; do not repeat it.
//  Threads   Any function may be called from any thread at any time. The caller must not destroy an
//            object while another thread uses it.
//  Handles   Handles are pointers to opaque structs. A null handle is ASHLAR_INVALID_ARGUMENT,
//            except that destroy functions ignore it.
//  Structs   Structs with a `struct_size` may grow at their end. The caller sets it to sizeof the
//            struct. Fields that only the caller's or only the library's version of the struct has
//            are treated as 0, the default. A nonzero field that the library does not have is
//            ASHLAR_UNSUPPORTED.
//  Text      is UTF-8 and null-terminated.
//  Callbacks are called with no lock held, from any thread, and may call the library. They must
//            neither throw nor longjmp. Callbacks with other rules say so at their declaration.
//  Forks     Objects that were created before a fork belong to the parent process: in the child,
//            their use is ASHLAR_INVALID_ARGUMENT, and their destruction does nothing. The child
//            opens devices and creates objects of its own.
//
// Errors: functions return a status code.
#pragma once

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): this is C.
#include <stddef.h>  // NOLINT: this is C
#include <stdint.h>  // NOLINT: this is C

#include "ashlar/c/plugin.h"

#define ASHLAR_C_API __attribute__((visibility("default")))
#ifdef __cplusplus
#define ASHLAR_C_NOEXCEPT noexcept
extern "C" {
#else
#define ASHLAR_C_NOEXCEPT
#endif

// Versions.

// The version of this header. Compatible with libraries of the same major version and the same or a
// later minor version.
#define ASHLAR_C_VERSION_MAJOR 1u
#define ASHLAR_C_VERSION_MINOR 1u
#define ASHLAR_C_VERSION (ASHLAR_C_VERSION_MAJOR << 16 | ASHLAR_C_VERSION_MINOR)
// Returns the version of the loaded library: major << 16 | minor.
ASHLAR_C_API uint32_t ashlar_c_version(void) ASHLAR_C_NOEXCEPT;
// Returns the release of Ashlar that the loaded library belongs to: "0.2.0".
ASHLAR_C_API const char* ashlar_version(void) ASHLAR_C_NOEXCEPT;

// Errors.

typedef int32_t ashlar_status;
enum {
  ASHLAR_OK = 0,
  ASHLAR_OUT_OF_MEMORY = 1,       // device or pinned memory, even after trimming caches
  ASHLAR_INVALID_ARGUMENT = 2,    // a precondition does not hold
  ASHLAR_UNSUPPORTED = 3,         // not supported by this device or this version
  ASHLAR_DEVICE_FAULT = 4,        // a driver or system call failed; see ashlar_last_code
  ASHLAR_DEVICE_LOST = 5,         // the device failed permanently
  ASHLAR_FORMAT = 6,              // malformed input
  ASHLAR_HOST_OUT_OF_MEMORY = 7,  // the library could not allocate host memory for itself
  ASHLAR_INTERNAL = 8,            // a bug in the library, or a callback that threw
  ASHLAR_TIMEOUT = 9,             // a deadline passed
  ASHLAR_PEER_LOST = 10           // another rank died or aborted
};
// Returns the name of a status: "ok", "out of memory", …; never null.
ASHLAR_C_API const char* ashlar_status_name(ashlar_status status) ASHLAR_C_NOEXCEPT;
// Returns the message of the last failed call on this thread. Valid until the next failure. Never
// null; empty if no call has failed yet. Messages longer than 4 KiB are truncated.
ASHLAR_C_API const char* ashlar_last_message(void) ASHLAR_C_NOEXCEPT;
// Returns the name of the driver or system function whose error the last failed call on this thread
// reported; empty if it reported no such error. Valid until the next failure.
ASHLAR_C_API const char* ashlar_last_call(void) ASHLAR_C_NOEXCEPT;
// Returns the error number from the function that ashlar_last_call names; 0 if it names none.
ASHLAR_C_API int64_t ashlar_last_code(void) ASHLAR_C_NOEXCEPT;

// Byte strings owned by the library.

typedef struct ashlar_bytes ashlar_bytes;
// Returns the bytes, followed by a null byte. Valid until ashlar_bytes_destroy.
ASHLAR_C_API const char* ashlar_bytes_data(const ashlar_bytes* bytes) ASHLAR_C_NOEXCEPT;
// Returns the number of bytes, without the null byte.
ASHLAR_C_API size_t ashlar_bytes_size(const ashlar_bytes* bytes) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API void ashlar_bytes_destroy(ashlar_bytes* bytes) ASHLAR_C_NOEXCEPT;

// Devices. The first call opens all devices, for the whole process; they are never closed. The
// environment configures simulated devices (ASHLAR_SIM_DEVICES, …).

typedef struct ashlar_device ashlar_device;

// Counts the devices of a back end: "sim", "cuda" or "hip". ASHLAR_UNSUPPORTED if the back end is
// not available on this machine; the message gives the reason.
ASHLAR_C_API ashlar_status ashlar_device_count(const char* backend,
                                               size_t* count) ASHLAR_C_NOEXCEPT;
// Opens a device. Calls for the same device in the same process return the same handle.
ASHLAR_C_API ashlar_status ashlar_device_open(const char* backend, size_t index,
                                              ashlar_device** device) ASHLAR_C_NOEXCEPT;

typedef struct ashlar_device_properties {
  size_t struct_size;
  const char* backend;  // strings are valid until the process exits
  const char* name;
  const char* pci_id;  // empty if the device has none
  uint8_t uuid[16];
  uint64_t index;
  uint64_t capacity_bytes;
  uint64_t granularity_bytes;  // sizes of extents and reservations are multiples of this
  int32_t has_virtual_memory;
  int32_t has_stream_ordered_pool;
  int32_t has_capture;
  // Stream priorities run from 0 up to this value; unlike in CUDA, higher is more urgent.
  int32_t greatest_priority;
} ashlar_device_properties;
ASHLAR_C_API ashlar_status ashlar_device_describe(
    const ashlar_device* device, ashlar_device_properties* properties) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_device_memory(ashlar_device* device, size_t* free_bytes,
                                                size_t* total_bytes) ASHLAR_C_NOEXCEPT;
// Blocks until all work of the device is done.
ASHLAR_C_API ashlar_status ashlar_device_synchronize(ashlar_device* device) ASHLAR_C_NOEXCEPT;

// Streams and events. A stream is the driver's handle: pass a cudaStream_t or hipStream_t directly;
// null is the default stream. These functions are for programs that do not use the vendor's API.

typedef void* ashlar_stream;
typedef uint64_t ashlar_event;

ASHLAR_C_API ashlar_status ashlar_stream_create(ashlar_device* device, int32_t priority,
                                                ashlar_stream* stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_stream_destroy(ashlar_device* device,
                                                 ashlar_stream stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_stream_synchronize(ashlar_device* device,
                                                     ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Sets *is_idle to 1 if all queued work is done, and to 0 otherwise.
ASHLAR_C_API ashlar_status ashlar_stream_is_idle(ashlar_device* device, ashlar_stream stream,
                                                 int32_t* is_idle) ASHLAR_C_NOEXCEPT;

ASHLAR_C_API ashlar_status ashlar_event_create(ashlar_device* device,
                                               ashlar_event* event) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_event_destroy(ashlar_device* device,
                                                ashlar_event event) ASHLAR_C_NOEXCEPT;
// Marks all work queued in the stream so far.
ASHLAR_C_API ashlar_status ashlar_event_record(ashlar_device* device, ashlar_event event,
                                               ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Makes later work of the stream start after the marked work. Does not block the host.
ASHLAR_C_API ashlar_status ashlar_event_wait(ashlar_device* device, ashlar_event event,
                                             ashlar_stream stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_event_synchronize(ashlar_device* device,
                                                    ashlar_event event) ASHLAR_C_NOEXCEPT;

// Copies. The functions queue work on the stream. Host memory must stay valid until the work is
// done.

ASHLAR_C_API ashlar_status ashlar_copy_to_device(ashlar_device* device, void* to, const void* from,
                                                 size_t bytes,
                                                 ashlar_stream stream) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_copy_to_host(ashlar_device* device, void* to, const void* from,
                                               size_t bytes,
                                               ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Copies from device memory to device memory.
ASHLAR_C_API ashlar_status ashlar_copy(ashlar_device* device, void* to, const void* from,
                                       size_t bytes, ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Sets every byte to `value`.
ASHLAR_C_API ashlar_status ashlar_fill(ashlar_device* device, void* at, uint8_t value, size_t bytes,
                                       ashlar_stream stream) ASHLAR_C_NOEXCEPT;

// Allocators.

typedef struct ashlar_allocator ashlar_allocator;
typedef struct ashlar_block ashlar_block;

// Creates an allocator. docs/reference/options.md describes the `options` string, for example
// "engine:paged,max_split_size_mb:512". Null selects the options in the environment, an empty
// string the defaults.
ASHLAR_C_API ashlar_status ashlar_allocator_create(ashlar_device* device, const char* options,
                                                   ashlar_allocator** allocator) ASHLAR_C_NOEXCEPT;
// Returns all memory to the device, including blocks that are still allocated.
ASHLAR_C_API void ashlar_allocator_destroy(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;

// Allocates memory for work on the stream. 0 bytes yield null.
ASHLAR_C_API ashlar_status ashlar_allocate(ashlar_allocator* allocator, size_t bytes,
                                           ashlar_stream stream, void** memory) ASHLAR_C_NOEXCEPT;
// Frees memory from ashlar_allocate. Ignores null. ASHLAR_INVALID_ARGUMENT if the address is not
// allocated. ASHLAR_DEVICE_FAULT or ASHLAR_DEVICE_LOST if the device fails: the memory is no longer
// the caller's, stays pending, and a later allocation or trim retries. Needs no host memory.
ASHLAR_C_API ashlar_status ashlar_free(ashlar_allocator* allocator, void* memory) ASHLAR_C_NOEXCEPT;
// Declares that work on another stream uses the memory: after the free, the memory is not reused
// before the work that is queued on that stream at the time of the free is done. Not needed for the
// stream of the allocation.
ASHLAR_C_API ashlar_status ashlar_record_stream(ashlar_allocator* allocator, void* memory,
                                                ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Like ashlar_record_stream, for a stream of another device.
ASHLAR_C_API ashlar_status ashlar_record_stream_of(ashlar_allocator* allocator, void* memory,
                                                   ashlar_device* device,
                                                   ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Returns the start and the size of the device allocation that contains the memory. Either out
// parameter may be null. ASHLAR_INVALID_ARGUMENT for mapped memory (of the paged engine or of
// expandable segments), which is not part of a device allocation.
ASHLAR_C_API ashlar_status ashlar_base_allocation(ashlar_allocator* allocator, void* memory,
                                                  void** base, size_t* bytes) ASHLAR_C_NOEXCEPT;

// Allocation by handle, which saves the lookup of the address. For a freed block,
// ashlar_free_block and ashlar_record_block_stream return ASHLAR_INVALID_ARGUMENT, unless the block
// was allocated again.

// Like ashlar_allocate, but the block must be freed by its handle.
// ASHLAR_INVALID_ARGUMENT if `bytes` is 0.
ASHLAR_C_API ashlar_status ashlar_allocate_block(ashlar_allocator* allocator, size_t bytes,
                                                 ashlar_stream stream,
                                                 ashlar_block** block) ASHLAR_C_NOEXCEPT;
// Frees a block. Fails like ashlar_free, but a null block is ASHLAR_INVALID_ARGUMENT, as is a block
// of another allocator.
ASHLAR_C_API ashlar_status ashlar_free_block(ashlar_allocator* allocator,
                                             ashlar_block* block) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_record_block_stream(ashlar_allocator* allocator,
                                                      ashlar_block* block,
                                                      ashlar_stream stream) ASHLAR_C_NOEXCEPT;
// Returns the address of the block; null for a null block.
ASHLAR_C_API void* ashlar_block_address(const ashlar_block* block) ASHLAR_C_NOEXCEPT;
// Returns the size of the block, as requested; 0 for a null block.
ASHLAR_C_API size_t ashlar_block_bytes(const ashlar_block* block) ASHLAR_C_NOEXCEPT;

// Returns cached memory to the device, except memory of retained pools. Waits for pending frees.
// During a capture, does not wait, and also keeps all memory of the default pool.
ASHLAR_C_API ashlar_status ashlar_trim(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;
// Returns cached memory to the device until at most `reserved_bytes` are reserved, or until no more
// can be returned. If `wait` is nonzero, waits for the work that uses freed memory.
// `released_bytes`, the number of returned bytes, may be null.
ASHLAR_C_API ashlar_status ashlar_trim_to(ashlar_allocator* allocator, size_t reserved_bytes,
                                          int32_t wait, size_t* released_bytes) ASHLAR_C_NOEXCEPT;
// Limits the allocator to a fraction of the device's capacity, in [0, 1]; 1 removes the limit.
ASHLAR_C_API ashlar_status ashlar_set_memory_fraction(ashlar_allocator* allocator,
                                                      double fraction) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_memory_fraction(const ashlar_allocator* allocator,
                                                  double* fraction) ASHLAR_C_NOEXCEPT;

// Options.

// Validates an options string.
ASHLAR_C_API ashlar_status ashlar_check_options(const char* options) ASHLAR_C_NOEXCEPT;
// Returns the allocator's non-default options, as an options string.
ASHLAR_C_API ashlar_status ashlar_allocator_options(const ashlar_allocator* allocator,
                                                    ashlar_bytes** options) ASHLAR_C_NOEXCEPT;

typedef struct ashlar_option {
  size_t struct_size;
  const char* name;  // strings are valid until the process exits
  const char* type;
  const char* unit;  // empty if the option has none
  const char* default_text;
  const char* range;
  const char* help;
} ashlar_option;
typedef void (*ashlar_option_visitor)(const ashlar_option* option, void* context);
// Calls the visitor for every option.
ASHLAR_C_API ashlar_status ashlar_visit_options(ashlar_option_visitor visitor,
                                                void* context) ASHLAR_C_NOEXCEPT;

// Pools. Each pool has separate memory. {0, 0} is the default pool.

typedef struct ashlar_pool {
  uint64_t capture;
  uint64_t user;
} ashlar_pool;

// User-supplied allocation functions, as the source of a pool's memory. To use them for all
// allocations, select engine:plugin in the options.
typedef struct ashlar_plugin ashlar_plugin;
// Loads the functions from a shared object.
ASHLAR_C_API ashlar_status ashlar_plugin_load(ashlar_device* device, const char* library,
                                              const char* alloc_symbol, const char* free_symbol,
                                              ashlar_plugin** plugin) ASHLAR_C_NOEXCEPT;
// Makes a plug-in from functions in the calling program. `hooks` may be null. The functions and the
// table must stay valid until the process exits.
ASHLAR_C_API ashlar_status ashlar_plugin_wrap(ashlar_device* device, ashlar_plugin_alloc alloc,
                                              ashlar_plugin_free free,
                                              const struct ashlar_plugin_hooks* hooks,
                                              ashlar_plugin** plugin) ASHLAR_C_NOEXCEPT;
// Destroys the handle. Pools created with the plug-in stay valid.
ASHLAR_C_API void ashlar_plugin_destroy(ashlar_plugin* plugin) ASHLAR_C_NOEXCEPT;

typedef struct ashlar_pool_options {
  size_t struct_size;
  ashlar_plugin* source;  // null: memory comes from the device
  int32_t use_on_oom;     // cached blocks may serve the default pool if all else fails
  int32_t no_split;       // segments are not split into several blocks
  int32_t never_remap;    // addresses are never remapped
  int32_t reserved;       // must be 0
  const char* tag;        // the tag for ashlar_pause and ashlar_resume; may be null
} ashlar_pool_options;
// Creates a pool with one reference, held by the caller. Null options select the defaults.
ASHLAR_C_API ashlar_status ashlar_pool_create(ashlar_allocator* allocator,
                                              const ashlar_pool_options* options,
                                              ashlar_pool* pool) ASHLAR_C_NOEXCEPT;
// Creates a pool for the capture of a graph, with one reference, held by the caller.
ASHLAR_C_API ashlar_status ashlar_capture_pool_create(ashlar_allocator* allocator,
                                                      ashlar_pool* pool) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_pool_retain(ashlar_allocator* allocator,
                                              ashlar_pool pool) ASHLAR_C_NOEXCEPT;
// Drops a reference. The next trim after the last release returns the pool's memory to the device.
ASHLAR_C_API ashlar_status ashlar_pool_release(ashlar_allocator* allocator,
                                               ashlar_pool pool) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_pool_use_count(const ashlar_allocator* allocator,
                                                 ashlar_pool pool,
                                                 int32_t* count) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_pool_trim(ashlar_allocator* allocator,
                                            ashlar_pool pool) ASHLAR_C_NOEXCEPT;

// Returns nonzero if allocations on the stream go to the pool. Called with the allocator's lock
// held: it must not call the allocator.
typedef int (*ashlar_route_filter)(ashlar_stream stream, void* context);
// Routes allocations to the pool until ashlar_pool_end. With a filter, routes the allocations on
// streams that the filter accepts; without a filter, the allocations of the calling thread. Creates
// the pool if it does not exist, and retains it.
ASHLAR_C_API ashlar_status ashlar_pool_begin(ashlar_allocator* allocator, ashlar_pool pool,
                                             ashlar_route_filter filter,
                                             void* context) ASHLAR_C_NOEXCEPT;
// Ends the routing. Does not release the pool.
ASHLAR_C_API ashlar_status ashlar_pool_end(ashlar_allocator* allocator,
                                           ashlar_pool pool) ASHLAR_C_NOEXCEPT;
// Tells the allocator that a stream of its device is about to begin a capture.
ASHLAR_C_API ashlar_status ashlar_capture_began(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;
// Tells the allocator that the capture has ended.
ASHLAR_C_API ashlar_status ashlar_capture_ended(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;

// Returns the memory of all pools with the tag to the device, while their blocks keep their
// addresses: docs/how-to/sleep.md. If `keep_contents` is nonzero, the contents are copied to host
// memory.
ASHLAR_C_API ashlar_status ashlar_pause(ashlar_allocator* allocator, const char* tag,
                                        int32_t keep_contents) ASHLAR_C_NOEXCEPT;
// Obtains memory for the paused pools with the tag, and restores the contents if they were kept.
ASHLAR_C_API ashlar_status ashlar_resume(ashlar_allocator* allocator,
                                         const char* tag) ASHLAR_C_NOEXCEPT;

// Statistics.

// A gauge with its peak and totals. This struct never grows.
typedef struct ashlar_stat {
  int64_t current;
  int64_t peak;
  int64_t increased;  // sum of all increases since the last reset
  int64_t decreased;  // sum of all decreases since the last reset
} ashlar_stat;

typedef struct ashlar_stats {
  size_t struct_size;
  ashlar_stat allocation;       // allocated blocks
  ashlar_stat allocated_bytes;  // sizes of allocated blocks
  ashlar_stat active;           // blocks that are allocated or pending free
  ashlar_stat active_bytes;
  ashlar_stat requested_bytes;  // requested sizes of active blocks
  ashlar_stat reserved_bytes;   // all memory obtained from the device
  int64_t alloc_retries;        // cache flushes before a retry of an allocation
  int64_t ooms;                 // out-of-memory errors reported to the caller
  int64_t device_allocs;        // calls that obtained memory from the device
  int64_t device_frees;         // calls that returned memory to the device
  int64_t stitches;             // blocks composed of extents mapped from other views
} ashlar_stats;
ASHLAR_C_API ashlar_status ashlar_get_stats(const ashlar_allocator* allocator,
                                            ashlar_stats* stats) ASHLAR_C_NOEXCEPT;

// `name` is valid during the call only.
typedef void (*ashlar_stat_visitor)(const char* name, int64_t value, void* context);
// Visits all statistics under PyTorch's names ("allocated_bytes.all.peak"), in a fixed order.
ASHLAR_C_API ashlar_status ashlar_visit_stats(const ashlar_allocator* allocator,
                                              ashlar_stat_visitor visitor,
                                              void* context) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_reset_peak_stats(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;
ASHLAR_C_API ashlar_status ashlar_reset_total_stats(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;

// History and snapshots.

typedef int32_t ashlar_stacks;
enum {  // which parts of a snapshot have call stacks; each level includes the previous one
  ASHLAR_STACKS_NEVER = 0,
  ASHLAR_STACKS_STATE = 1,  // blocks that are allocated at the time of the snapshot
  ASHLAR_STACKS_ALLOC = 2,  // entries of allocations
  ASHLAR_STACKS_ALL = 3     // entries of frees
};
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
typedef struct ashlar_history_options {
  size_t struct_size;
  size_t max_entries;  // capacity of the ring buffer; 0: 2^20
  ashlar_stacks stacks;
  int32_t clear;                      // discard earlier entries
  const ashlar_action* skip_actions;  // actions that are not recorded, `skip_action_count` of them
  size_t skip_action_count;
} ashlar_history_options;
// Starts recording. Null options select the defaults.
ASHLAR_C_API ashlar_status ashlar_history_start(
    ashlar_allocator* allocator, const ashlar_history_options* options) ASHLAR_C_NOEXCEPT;
// Stops recording and discards all entries.
ASHLAR_C_API ashlar_status ashlar_history_stop(ashlar_allocator* allocator) ASHLAR_C_NOEXCEPT;
// Adds an annotation with the current time to the history, if recording:
// {"name": name, "stage": stage}.
ASHLAR_C_API ashlar_status ashlar_annotate(ashlar_allocator* allocator, const char* name,
                                           const char* stage) ASHLAR_C_NOEXCEPT;
// Records a text for the allocation at `memory`, if recording.
ASHLAR_C_API ashlar_status ashlar_annotate_memory(ashlar_allocator* allocator, void* memory,
                                                  const char* text) ASHLAR_C_NOEXCEPT;

// Sets a text that is attached to everything the calling thread records, in every allocator. An
// empty text clears it.
ASHLAR_C_API ashlar_status ashlar_set_user_metadata(const char* text) ASHLAR_C_NOEXCEPT;
// Returns the text that the calling thread has set.
ASHLAR_C_API ashlar_status ashlar_user_metadata(ashlar_bytes** text) ASHLAR_C_NOEXCEPT;
// Enters a region of compiled code. Its name is attached to everything the calling thread records,
// in every allocator, until ashlar_pop_compile_context. Regions nest; the innermost one is
// recorded.
ASHLAR_C_API ashlar_status ashlar_push_compile_context(const char* name) ASHLAR_C_NOEXCEPT;
// Leaves the region of the last ashlar_push_compile_context. Does nothing if there is none.
ASHLAR_C_API void ashlar_pop_compile_context(void) ASHLAR_C_NOEXCEPT;

// The texts are valid during the call only. `line` is 0 if it is unknown.
typedef void (*ashlar_frame_visitor)(const char* name, const char* file, int64_t line,
                                     void* context);
// Visits the stack that was recorded for the allocation at `memory`, innermost frame first. Visits
// nothing if none was recorded.
ASHLAR_C_API ashlar_status ashlar_visit_stack(ashlar_allocator* allocator, const void* memory,
                                              ashlar_frame_visitor visitor,
                                              void* context) ASHLAR_C_NOEXCEPT;

typedef int32_t ashlar_format;
enum {
  ASHLAR_FORMAT_PICKLE = 0,  // the format of torch.cuda.memory._dump_snapshot
  ASHLAR_FORMAT_JSON = 1     // JSON with the keys of the pickle
};
// Serializes the current state and the recorded history.
ASHLAR_C_API ashlar_status ashlar_snapshot(ashlar_allocator* allocator, ashlar_format format,
                                           ashlar_bytes** snapshot) ASHLAR_C_NOEXCEPT;
// Writes the current state and the recorded history to a file, as a pickle.
ASHLAR_C_API ashlar_status ashlar_save_snapshot(ashlar_allocator* allocator,
                                                const char* path) ASHLAR_C_NOEXCEPT;

// Live monitoring: a server through which `ashlar top`, `ashlar view --live` and Prometheus, on
// this machine only, observe all allocators of the process: docs/reference/formats/live.md.

typedef struct ashlar_live_server ashlar_live_server;
typedef struct ashlar_live_server_options {
  size_t struct_size;
  int32_t has_port;   // 0: only the Unix socket, for processes of the same user
  uint16_t port;      // a port of 127.0.0.1; 0: any free port
  const char* token;  // 16 to 128 letters, digits, - and _; null: a random token
} ashlar_live_server_options;
// Starts the server. Null options select the defaults. ASHLAR_DEVICE_FAULT if the port is in use.
ASHLAR_C_API ashlar_status ashlar_live_server_start(const ashlar_live_server_options* options,
                                                    ashlar_live_server** server) ASHLAR_C_NOEXCEPT;
// Returns the URL of the server, "http://127.0.0.1:PORT/TOKEN/"; empty if the server has no port.
ASHLAR_C_API ashlar_status ashlar_live_server_url(const ashlar_live_server* server,
                                                  ashlar_bytes** url) ASHLAR_C_NOEXCEPT;
// Closes all connections and destroys the handle.
ASHLAR_C_API void ashlar_live_server_stop(ashlar_live_server* server) ASHLAR_C_NOEXCEPT;

// Hooks. They stay registered until the allocator is destroyed.

typedef struct ashlar_trace_entry {
  size_t struct_size;
  ashlar_action action;
  int32_t reserved;
  void* memory;  // for ASHLAR_ACTION_OOM, the number of free bytes of the device
  size_t bytes;
  ashlar_stream stream;
  ashlar_pool pool;
} ashlar_trace_entry;
// Receives every operation except annotations, in order; see TraceTracker in ashlar/trace.h.
typedef void (*ashlar_tracker)(const ashlar_trace_entry* entry, void* context);
ASHLAR_C_API ashlar_status ashlar_add_tracker(ashlar_allocator* allocator, ashlar_tracker tracker,
                                              void* context) ASHLAR_C_NOEXCEPT;

typedef struct ashlar_oom_notice {
  size_t struct_size;
  size_t wanted_bytes;  // memory that could not be obtained from the device
  size_t limit_bytes;   // the allocator's limit, or the device's capacity
  size_t device_free_bytes;
} ashlar_oom_notice;
// Called when an allocation fails after every attempt to reclaim memory.
typedef void (*ashlar_oom_observer)(const ashlar_oom_notice* notice, void* context);
ASHLAR_C_API ashlar_status ashlar_add_oom_observer(ashlar_allocator* allocator,
                                                   ashlar_oom_observer observer,
                                                   void* context) ASHLAR_C_NOEXCEPT;
// Called when no cached block fits a request or, for requests that bypass the cache, when the
// device is out of memory. Returns nonzero if it freed memory, so that a retry may succeed.
typedef int (*ashlar_free_memory_callback)(void* context);
ASHLAR_C_API ashlar_status ashlar_add_free_memory_callback(ashlar_allocator* allocator,
                                                           ashlar_free_memory_callback callback,
                                                           void* context) ASHLAR_C_NOEXCEPT;

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)
