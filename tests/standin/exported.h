// SPDX-License-Identifier: Apache-2.0
//
// Macros that export functions from a stand-in driver.
#pragma once

#define ASHLAR_STANDIN extern "C" __attribute__((visibility("default")))

// Defines a function that both vendors have, under the name that this library's vendor uses.
#ifdef ASHLAR_STANDIN_IS_HIP
#define ASHLAR_STANDIN_FOR(cuda_name, hip_name) ASHLAR_STANDIN int hip_name
#else
#define ASHLAR_STANDIN_FOR(cuda_name, hip_name) ASHLAR_STANDIN int cuda_name
#endif
