// SPDX-License-Identifier: Apache-2.0
//
// The version of Ashlar that these headers belong to. Before 1.0, a minor version may break the
// API. `ashlar_version()` (ashlar/c/ashlar.h) returns the version of the loaded library.
//
// Errors: none.
#pragma once

#define ASHLAR_VERSION_MAJOR 0
#define ASHLAR_VERSION_MINOR 2
#define ASHLAR_VERSION_PATCH 0
#define ASHLAR_VERSION_STRING "0.2.0"

// For comparisons: #if ASHLAR_VERSION_NUMBER >= 200
#define ASHLAR_VERSION_NUMBER \
  (ASHLAR_VERSION_MAJOR * 10000 + ASHLAR_VERSION_MINOR * 100 + ASHLAR_VERSION_PATCH)
