// SPDX-License-Identifier: Apache-2.0
//
// A minimal C program that uses the installed library: it opens a device, allocates and frees.
#include <ashlar/c/ashlar.h>
#include <stdio.h>

int main(void) {
  ashlar_device* device = NULL;
  ashlar_allocator* allocator = NULL;
  void* memory = NULL;
  if (ashlar_c_version() >> 16 != ASHLAR_C_VERSION_MAJOR ||
      ashlar_device_open("sim", 0, &device) != ASHLAR_OK ||
      ashlar_allocator_create(device, "", &allocator) != ASHLAR_OK ||
      ashlar_allocate(allocator, 1000, NULL, &memory) != ASHLAR_OK ||
      ashlar_free(allocator, memory) != ASHLAR_OK) {
    printf("failed: %s\n", ashlar_last_message());
    return 1;
  }
  ashlar_allocator_destroy(allocator);
  printf("C program used Ashlar %s\n", ashlar_version());
  return 0;
}
