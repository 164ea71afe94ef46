// SPDX-License-Identifier: Apache-2.0
//
// The allocator in C: copies a string to the device and back, on a stream of its own.
#include <stdio.h>

#include "ashlar/c/ashlar.h"

static int fail(const char* what) {
  printf("%s: %s\n", what, ashlar_last_message());
  return 1;
}

int main(void) {
  ashlar_device* device;
  ashlar_allocator* allocator;
  if (ashlar_device_open("sim", 0, &device)) return fail("no device");
  if (ashlar_allocator_create(device, "engine:paged", &allocator)) return fail("no allocator");

  ashlar_stream stream;
  void* memory;
  char text[] = "there and back";
  if (ashlar_stream_create(device, 0, &stream)) return fail("no stream");
  if (ashlar_allocate(allocator, sizeof text, stream, &memory)) return fail("no memory");
  ashlar_copy_to_device(device, memory, text, sizeof text, stream);
  ashlar_copy_to_host(device, text, memory, sizeof text, stream);
  ashlar_free(allocator, memory);  // work that is already queued on the stream may still use it
  if (ashlar_stream_synchronize(device, stream)) return fail("the work failed");

  ashlar_stats stats = {.struct_size = sizeof stats};
  ashlar_get_stats(allocator, &stats);
  printf("%s: %lld blocks, at most %lld B live\n", text, (long long)stats.allocation.increased,
         (long long)stats.requested_bytes.peak);
  ashlar_allocator_destroy(allocator);
  return 0;
}
