// SPDX-License-Identifier: Apache-2.0
//
// Enumerates the functions of `Device`, for call counts, modelled cost and fault injection.
//
// Errors: none.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "ashlar/export.h"

namespace ashlar {

// The functions of `Device`, except properties, last_error and take_last_error, in the order of
// their declaration, followed by kernel launches.
enum class DeviceCall {
  kMemoryStats,
  kProcesses,
  kAllocate,
  kFree,
  kDescribe,
  kReserve,
  kFreeAddresses,
  kCreate,
  kRelease,
  kMap,
  kSetAccess,
  kUnmap,
  kExportFd,
  kImportFd,
  kExportFabric,
  kImportFabric,
  kShareAllocation,
  kOpenAllocation,
  kCloseAllocation,
  kCanAccessPeer,
  kEnablePeerAccess,
  kDisablePeerAccess,
  kAllocateHost,
  kFreeHost,
  kRegisterHost,
  kUnregisterHost,
  kCreateStream,
  kDestroyStream,
  kIsIdle,
  kSynchronizeStream,
  kSynchronizeDevice,
  kCreateEvent,
  kDestroyEvent,
  kRecordEvent,
  kIsDone,
  kSynchronizeEvent,
  kWaitEvent,
  kElapsedMs,
  kCopyToDevice,
  kCopyToHost,
  kCopy,
  kCopyToPeer,
  kFill,
  kCallHost,
  kAllocateAsync,
  kFreeAsync,
  kDriverPoolStats,
  kResetPoolPeaks,
  kSetPoolThreshold,
  kTrimPool,
  kBeginCapture,
  kEndCapture,
  kCaptureState,
  kNodeDependencies,
  kExchangeCaptureMode,
  kLaunchGraph,
  kDestroyGraph,
  kLaunch,  // kernel launches; not part of `Device`, because they are vendor-specific
};

inline constexpr size_t kDeviceCallCount = static_cast<size_t>(DeviceCall::kLaunch) + 1;

ASHLAR_EXPORT std::string_view name(DeviceCall call);  // returns "allocate_async", for example
ASHLAR_EXPORT std::optional<DeviceCall> device_call_from_name(std::string_view name);

}  // namespace ashlar
