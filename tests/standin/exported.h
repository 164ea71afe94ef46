// SPDX-License-Identifier: Apache-2.0
//
// For the functions of stand-in drivers: they are what the library shows.
#pragma once

#define ASHLAR_STANDIN extern "C" __attribute__((visibility("default")))

// A function that both vendors have, under the name that is this library's.
#ifdef ASHLAR_STANDIN_IS_HIP
#define ASHLAR_STANDIN_FOR(cuda_name, hip_name) ASHLAR_STANDIN int hip_name
#else
#define ASHLAR_STANDIN_FOR(cuda_name, hip_name) ASHLAR_STANDIN int cuda_name
#endif
