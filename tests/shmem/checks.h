// SPDX-License-Identifier: Apache-2.0
//
// ASHLAR_EXPECT for the test programs: prints a failed condition and terminates all PEs.
#pragma once

#include <shmem.h>
#include <stdio.h>

#define ASHLAR_EXPECT(CONDITION)                                                         \
  do {                                                                                   \
    if (!(CONDITION)) {                                                                  \
      fprintf(stderr, "%s:%d: PE %d: expected: %s\n", __FILE__, __LINE__, shmem_my_pe(), \
              #CONDITION);                                                               \
      shmem_global_exit(70);                                                             \
    }                                                                                    \
  } while (0)
