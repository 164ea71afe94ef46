// SPDX-License-Identifier: Apache-2.0
//
// What a memory allocator of somebody else looks like to Ashlar: two functions in PyTorch's shape,
// found by name in a shared object, and a table of further ones that it may export. For C11 and
// C++. docs/guide/plugins.md tells how they are used.
//
// Ashlar calls them with none of its locks held, from any thread, several at once. An exception
// that escapes from them is caught and reported as a failure of the device.
#pragma once

// NOLINTBEGIN(modernize-use-using, readability-identifier-naming): C has no other words for these.
#include <stddef.h>  // NOLINT: it is C
#include <stdint.h>  // NOLINT: it is C

#ifdef __cplusplus
extern "C" {
#endif

// Memory of at least that size for work on the stream, a driver's stream handle (null: the default
// one). Null: there is none; Ashlar then gives something back, and may ask again.
typedef void* (*ashlar_plugin_alloc)(size_t bytes, int device, void* stream);
// With what it was allocated with. Work on the stream may still be using it, but no work on others.
typedef void (*ashlar_plugin_free)(void* memory, size_t bytes, int device, void* stream);

// Raised when a field changes its meaning. New fields come at the end, and `struct_size` tells.
#define ASHLAR_PLUGIN_ABI_VERSION 1u
// What the table is called unless the options name another.
#define ASHLAR_PLUGIN_HOOKS_SYMBOL "ashlar_plugin_hooks"

// Says whether the pool that routing was begun for takes allocations on the stream.
typedef int (*ashlar_plugin_filter)(void* stream, void* context);

// Any function may be null. The plug-in exports a constant of this type, under the same name.
struct ashlar_plugin_hooks {
  uint32_t abi_version;  // ASHLAR_PLUGIN_ABI_VERSION
  uint32_t struct_size;  // sizeof(struct ashlar_plugin_hooks), as the plug-in was compiled

  // Before anything else on the device; again if a further allocator uses it.
  void (*init)(int device);
  // Give back what you cache: somebody trimmed, or there is no memory.
  void (*reset)(void);
  // At most this share of the device's capacity, in [0, 1].
  void (*memory_fraction)(double fraction, int device);
  // What the memory is part of, and how large that is.
  void* (*base_alloc)(void* memory, size_t* bytes);
  // Work queued so far on another stream uses the memory, too. With this hook it is the plug-in
  // that waits for that work after the free; without, Ashlar frees later.
  void (*record_stream)(void* memory, void* stream);
  // Allocations that the filter accepts are of this pool from now on. The filter may be called
  // until the end; `capture` is not 0 for a pool of a capture, `user` for a user's.
  void (*begin_allocate_to_pool)(int device, uint64_t capture, uint64_t user,
                                 ashlar_plugin_filter filter, void* context);
  void (*end_allocate_to_pool)(int device, uint64_t capture, uint64_t user);
  // Nobody holds the pool any more.
  void (*release_pool)(int device, uint64_t capture, uint64_t user);
};

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using, readability-identifier-naming)
