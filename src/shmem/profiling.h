// SPDX-License-Identifier: Apache-2.0
//
// The profiling interface. In this library, the functions of shmem.h are weak (ASHLAR_SHMEM_WEAK),
// so that a tool can define them. Calls within the library use the names with the prefix `p`, so
// that a tool sees only the program's calls.
#pragma once

#include "ashlar/shmem/shmem.h"

// Defines pNAME, a second name of the function NAME, which the same file has defined before. The
// type is that of the declaration of pNAME, which, unlike NAME, is not overloaded.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ASHLAR_SHMEM_PROFILED(NAME) \
  extern "C" __attribute__((alias(#NAME), visibility("default"))) decltype(p##NAME) p##NAME;
// NOLINTEND(bugprone-macro-parentheses)
