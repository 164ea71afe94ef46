// SPDX-License-Identifier: Apache-2.0
//
// The profiling interface: shmem.h also declares every function with the prefix `p`.
#pragma once

#include "shmem.h"
