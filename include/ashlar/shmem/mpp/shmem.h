// SPDX-License-Identifier: Apache-2.0
//
// The deprecated name of shmem.h.
#pragma once

#include "../shmem.h"
