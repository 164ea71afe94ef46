// SPDX-License-Identifier: Apache-2.0
//
// The interface of a memory plug-in: two functions with the signatures of PyTorch's pluggable
// allocators, found by name in a shared object, and an optional table of hooks. For C11 and C++.
// docs/how-to/plugins.md explains its use.
//
// Ashlar calls these functions concurrently, from any thread, with none of its locks held. An
// exception that escapes is caught and reported as a device fault.
//
// Errors: the allocation function returns null; the other functions report no errors. No function
// may throw.
#pragma once

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): this is C.
#include <stddef.h>  // NOLINT: this is C
#include <stdint.h>  // NOLINT: this is C

#ifdef __cplusplus
extern "C" {
#endif

// Returns memory of at least `bytes` bytes for work on the stream. `stream` is the driver's handle;
// null is the default stream. Returns null if out of memory; Ashlar then reclaims memory and may
// try again.
typedef void* (*ashlar_plugin_alloc)(size_t bytes, int device, void* stream);
// Frees memory; the other arguments are those of the allocation. Work on the stream may still use
// the memory. Work on another stream may use it only if record_stream was called for that stream.
typedef void (*ashlar_plugin_free)(void* memory, size_t bytes, int device, void* stream);

// The version is incremented if a field changes its meaning. New fields are appended to the struct,
// which increases `struct_size`.
#define ASHLAR_PLUGIN_ABI_VERSION 1u
// The symbol of the hook table, unless the options name another symbol.
#define ASHLAR_PLUGIN_HOOKS_SYMBOL "ashlar_plugin_hooks"

// Returns nonzero if allocations on the stream go to the pool.
typedef int (*ashlar_plugin_filter)(void* stream, void* context);

// The hook table: the plug-in exports a constant of this type. Any function may be null.
struct ashlar_plugin_hooks {
  uint32_t abi_version;  // ASHLAR_PLUGIN_ABI_VERSION
  uint32_t struct_size;  // sizeof(struct ashlar_plugin_hooks) when the plug-in was compiled

  // Called once for each allocator or pool source that uses the plug-in, before any other function
  // is called for it. May therefore be called several times for one device, even while allocations
  // are live.
  void (*init)(int device);
  // Releases cached memory. Called when the user trims an allocator and when memory is short.
  void (*reset)(void);
  // Limits the plug-in to a fraction of the device's capacity, in [0, 1].
  void (*memory_fraction)(double fraction, int device);
  // Returns the start of the allocation that contains `memory`, and sets `bytes` to its size.
  void* (*base_alloc)(void* memory, size_t* bytes);
  // Declares that work queued so far on another stream uses the memory. A plug-in with this hook
  // must itself wait for that work after the free. For a plug-in without this hook, Ashlar defers
  // the free.
  void (*record_stream)(void* memory, void* stream);
  // Routes allocations that the filter accepts to the pool, until end_allocate_to_pool. The pair
  // (`capture`, `user`) is the pool's id: `capture` is nonzero for the pool of a capture, `user`
  // for a pool that the user created.
  void (*begin_allocate_to_pool)(int device, uint64_t capture, uint64_t user,
                                 ashlar_plugin_filter filter, void* context);
  void (*end_allocate_to_pool)(int device, uint64_t capture, uint64_t user);
  // Called after the last reference to the pool has been released.
  void (*release_pool)(int device, uint64_t capture, uint64_t user);
};

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)
