// SPDX-License-Identifier: Apache-2.0
//
// Draws the failing call from most device calls that an engine makes. Excludes the calls on which
// the stress test itself relies: launching kernels, ending a capture, and querying its contents.
#include "faults.h"

#include <array>
#include <chrono>

#include "environment.h"

namespace ashlar::stress {

sim::FaultRule draw_fault(Random& random) {
  constexpr std::array kCalls = {DeviceCall::kReserve,
                                 DeviceCall::kCreate,
                                 DeviceCall::kMap,
                                 DeviceCall::kSetAccess,
                                 DeviceCall::kUnmap,
                                 DeviceCall::kRelease,
                                 DeviceCall::kFreeAddresses,
                                 DeviceCall::kAllocate,
                                 DeviceCall::kFree,
                                 DeviceCall::kMemoryStats,
                                 DeviceCall::kCreateStream,
                                 DeviceCall::kDestroyStream,
                                 DeviceCall::kIsIdle,
                                 DeviceCall::kSynchronizeStream,
                                 DeviceCall::kSynchronizeDevice,
                                 DeviceCall::kCreateEvent,
                                 DeviceCall::kRecordEvent,
                                 DeviceCall::kWaitEvent,
                                 DeviceCall::kIsDone,
                                 DeviceCall::kSynchronizeEvent,
                                 DeviceCall::kAllocateHost,
                                 DeviceCall::kFreeHost,
                                 DeviceCall::kCopyToHost,
                                 DeviceCall::kCopyToDevice,
                                 DeviceCall::kBeginCapture,
                                 DeviceCall::kExchangeCaptureMode,
                                 DeviceCall::kLaunchGraph};
  sim::FaultRule rule;
  rule.call = kCalls[random.below(kCalls.size())];
  rule.device = DeviceIndex(random.below(kDeviceCount));
  rule.nth = 1 + random.below(10);
  switch (random.below(3)) {
    case 0: rule.status = Status::out_of_memory("injected"); break;
    case 1: rule.status = Status::device_fault("injected", 999, "injected"); break;
    default: rule.action = sim::FaultAction::kDelay; rule.delay = std::chrono::microseconds(100);
  }
  return rule;
}

}  // namespace ashlar::stress
