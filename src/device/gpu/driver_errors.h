// SPDX-License-Identifier: Apache-2.0
//
// Translates driver error codes to statuses. HIP uses CUDA's codes.
#pragma once

#include <cstddef>

#include "ashlar/status.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotReady = 600;
inline constexpr int kPeerAccessAlreadyEnabled = 704;
inline constexpr int kPeerAccessNotEnabled = 705;
inline constexpr int kNotSupported = 801;
inline constexpr int kCaptureImplicit = 906;

// Returns the status for a failed call, with the driver's function name and error text. REQUIRES:
// !result.ok().
Status status_of(const Driver& driver, const DriverResult& result);
// Formats a failed call, as in "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY: out of memory".
std::string explain(const Driver& driver, const DriverResult& result);

}  // namespace ashlar::gpu
