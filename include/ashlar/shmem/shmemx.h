// SPDX-License-Identifier: Apache-2.0
//
// The header for extensions that OpenSHMEM requires. Ashlar has no extensions.
#pragma once

#include "shmem.h"
