// SPDX-License-Identifier: Apache-2.0
//
// A name for every function of the device contract: for counting calls, charging their modelled
// cost, and making them fail on purpose.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "ashlar/export.h"

namespace ashlar {

// In the order of `Device`. Each enumerator is the function's name; name() gives it as text.
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
  kLaunch,  // device work proper; not in the contract, since every vendor launches its own way
};

inline constexpr size_t kDeviceCallCount = static_cast<size_t>(DeviceCall::kLaunch) + 1;

ASHLAR_EXPORT std::string_view name(DeviceCall call);
ASHLAR_EXPORT std::optional<DeviceCall> device_call_from_name(std::string_view name);

}  // namespace ashlar
