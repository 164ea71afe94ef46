// SPDX-License-Identifier: Apache-2.0
//
// What a driver's numbers mean for the contract. CUDA's numbers; HIP took them over, name by name.
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

// The status for a call that failed, with the driver's name for the call and its text for why.
// REQUIRES: not ok.
Status status_of(const Driver& driver, const Outcome& outcome);
// "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY: out of memory".
std::string explain(const Driver& driver, const Outcome& outcome);

}  // namespace ashlar::gpu
