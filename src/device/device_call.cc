// SPDX-License-Identifier: Apache-2.0
//
// Lists the names of the device calls, in the order of DeviceCall.
#include "ashlar/device_call.h"

#include <algorithm>
#include <array>

namespace ashlar {
namespace {

constexpr std::array<std::string_view, kDeviceCallCount> kNames = {
    "memory_stats",
    "processes",
    "allocate",
    "free",
    "describe",
    "reserve",
    "free_addresses",
    "create",
    "release",
    "map",
    "set_access",
    "unmap",
    "export_fd",
    "import_fd",
    "export_fabric",
    "import_fabric",
    "share_allocation",
    "open_allocation",
    "close_allocation",
    "can_access_peer",
    "enable_peer_access",
    "disable_peer_access",
    "allocate_host",
    "free_host",
    "register_host",
    "unregister_host",
    "create_stream",
    "destroy_stream",
    "is_idle",
    "synchronize_stream",
    "synchronize_device",
    "create_event",
    "destroy_event",
    "record_event",
    "is_done",
    "synchronize_event",
    "wait_event",
    "elapsed_ms",
    "copy_to_device",
    "copy_to_host",
    "copy",
    "copy_to_peer",
    "fill",
    "call_host",
    "allocate_async",
    "free_async",
    "driver_pool_stats",
    "reset_pool_peaks",
    "set_pool_threshold",
    "trim_pool",
    "begin_capture",
    "end_capture",
    "capture_state",
    "node_dependencies",
    "exchange_capture_mode",
    "launch_graph",
    "destroy_graph",
    "launch",
};
static_assert(kNames.back() == "launch", "a name is missing or out of order");

}  // namespace

std::string_view name(DeviceCall call) { return kNames[static_cast<size_t>(call)]; }

std::optional<DeviceCall> device_call_from_name(std::string_view wanted) {
  const auto found = std::find(kNames.begin(), kNames.end(), wanted);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<DeviceCall>(found - kNames.begin());
}

}  // namespace ashlar
