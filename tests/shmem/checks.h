// SPDX-License-Identifier: Apache-2.0
//
// What the programs of this folder say when something is wrong: the line, and how all PEs end.
#pragma once

#include <shmem.h>
#include <stdio.h>

#define ASHLAR_EXPECT(CONDITION)                                                       \
  do {                                                                                 \
    if (!(CONDITION)) {                                                                \
      fprintf(stderr, "%s:%d: PE %d: not so: %s\n", __FILE__, __LINE__, shmem_my_pe(), \
              #CONDITION);                                                             \
      shmem_global_exit(70);                                                           \
    }                                                                                  \
  } while (0)
