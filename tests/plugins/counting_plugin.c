// SPDX-License-Identifier: Apache-2.0
//
// A plug-in as a user would write it in C: PyTorch's two functions, a table of hooks, and counters
// for the tests. Its addresses are made up and never accessed.
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ashlar/c/plugin.h"

int called_dummy_alloc = 0;  // set to 123 by a call, as in PyTorch's test
int called_dummy_free = 0;   // set to 321 by a call

size_t last_bytes = 0;
size_t last_free_bytes = 0;
int last_device = -1;
void* last_stream = NULL;
void* last_free_stream = NULL;
size_t max_bytes = SIZE_MAX;  // larger requests get null

int init_count = 0;
int reset_count = 0;
double last_fraction = 0;
int record_count = 0;
int begin_count = 0;
int filter_result = -1;
int end_count = 0;
int release_count = 0;

// dummy_alloc and dummy_free have the names of the functions in PyTorch's own test of plug-ins.
void* dummy_alloc(size_t bytes, int device, void* stream);
void dummy_free(void* memory, size_t bytes, int device, void* stream);
void* null_alloc(size_t bytes, int device, void* stream);

static atomic_uint_least64_t next_address = UINT64_C(0x500000000000);

void* dummy_alloc(size_t bytes, int device, void* stream) {
  called_dummy_alloc = 123;
  last_bytes = bytes;
  last_device = device;
  last_stream = stream;
  if (bytes > max_bytes) return NULL;
  const uint64_t room = (bytes + 511) / 512 * 512;
  return (void*)(uintptr_t)atomic_fetch_add(&next_address, room);
}

void dummy_free(void* memory, size_t bytes, int device, void* stream) {
  (void)memory;
  called_dummy_free = 321;
  last_free_bytes = bytes;
  last_device = device;
  last_free_stream = stream;
}

void* null_alloc(size_t bytes, int device, void* stream) {
  (void)bytes;
  (void)device;
  (void)stream;
  return NULL;
}

static void on_init(int device) {
  (void)device;
  ++init_count;
}
static void on_reset(void) { ++reset_count; }
static void on_fraction(double fraction, int device) {
  (void)device;
  last_fraction = fraction;
}
static void* on_base(void* memory, size_t* bytes) {
  *bytes = 1 << 20;
  return (void*)((uintptr_t)memory - 512);
}
static void on_record(void* memory, void* stream) {
  (void)memory;
  last_stream = stream;
  ++record_count;
}
static void on_begin(int device, uint64_t capture, uint64_t user, ashlar_plugin_filter filter,
                     void* context) {
  (void)device;
  (void)capture;
  (void)user;
  ++begin_count;
  filter_result = filter(NULL, context);
}
static void on_end(int device, uint64_t capture, uint64_t user) {
  (void)device;
  (void)capture;
  (void)user;
  ++end_count;
}
static void on_release(int device, uint64_t capture, uint64_t user) {
  (void)device;
  (void)capture;
  (void)user;
  ++release_count;
}

const struct ashlar_plugin_hooks ashlar_plugin_hooks = {
    .abi_version = ASHLAR_PLUGIN_ABI_VERSION,
    .struct_size = sizeof(struct ashlar_plugin_hooks),
    .init = on_init,
    .reset = on_reset,
    .memory_fraction = on_fraction,
    .base_alloc = on_base,
    .record_stream = on_record,
    .begin_allocate_to_pool = on_begin,
    .end_allocate_to_pool = on_end,
    .release_pool = on_release,
};

// Tables of hooks: some that must be rejected, and one from an older header, which is shorter.
const struct ashlar_plugin_hooks hooks_of_another_version = {.abi_version = 2, .struct_size = 88};
const struct ashlar_plugin_hooks hooks_without_size = {.abi_version = 1, .struct_size = 0};
const struct ashlar_plugin_hooks short_hooks = {
    .abi_version = 1,
    .struct_size = offsetof(struct ashlar_plugin_hooks, memory_fraction),
    .init = on_init,
    .reset = on_reset,
    .record_stream = on_record,
};
