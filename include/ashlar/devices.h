// SPDX-License-Identifier: Apache-2.0
//
// Opens the devices of a vendor's driver. The driver is loaded at run time, so that one binary runs
// on machines with and without it.
//
// Errors: functions throw; their `try_` forms return a Result. Comments name the status kinds of
// the `try_` forms.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "ashlar/device.h"
#include "ashlar/export.h"
#include "ashlar/status.h"

namespace ashlar {

// Owns the devices of one back end and the driver state that they need.
class ASHLAR_EXPORT DeviceSet {
 public:
  virtual ~DeviceSet() = default;
  virtual size_t device_count() const = 0;
  // REQUIRES: index below device_count().
  virtual Device& device(DeviceIndex index) = 0;
  // Returns the back end that drives the device: "cuda" or "hip". Differs from
  // DeviceProperties::backend for AMD devices that are presented as cuda. REQUIRES: index below
  // device_count().
  virtual std::string_view driver(DeviceIndex index) const = 0;
};

struct DriverOptions {
  // Name or path of the driver library. Empty: the vendor's default name.
  std::string library{};
  // Name or path of the vendor's monitoring library (NVML), which lists the processes on a device.
  // Device::processes is unsupported without it.
  std::string monitor_library{};
};

// Opens all devices that are visible to this process, in the driver's order. The set may be empty.
// A device is initialized by its first call. A device uses the process's primary context, which the
// vendor's runtime and other libraries share, and creates no context of its own.
// kUnsupported: the driver is not installed or too old; the message gives the reason.
ASHLAR_EXPORT Result<std::unique_ptr<DeviceSet>> try_open_cuda(const DriverOptions& options = {});
ASHLAR_EXPORT Result<std::unique_ptr<DeviceSet>> try_open_hip(const DriverOptions& options = {});
inline std::unique_ptr<DeviceSet> open_cuda(const DriverOptions& options = {}) {
  return try_open_cuda(options).value();
}
inline std::unique_ptr<DeviceSet> open_hip(const DriverOptions& options = {}) {
  return try_open_hip(options).value();
}

struct AcceleratorOptions {
  DriverOptions cuda{};
  DriverOptions hip{};
};

// Opens the devices of all vendors as one set: NVIDIA's first, then AMD's. All are named cuda:0,
// cuda:1 and so on, because programs expect that name; DeviceSet::driver returns the actual back
// end of each. Devices of different vendors are never peers.
// kUnsupported: no vendor's driver is available; the message gives the reason for each.
ASHLAR_EXPORT Result<std::unique_ptr<DeviceSet>> try_open_accelerators(
    const AcceleratorOptions& options = {});
inline std::unique_ptr<DeviceSet> open_accelerators(const AcceleratorOptions& options = {}) {
  return try_open_accelerators(options).value();
}

// Parses "cuda:1" or its synonym "hip:1" and returns the index; "cuda" is index 0.
// kInvalidArgument: anything else.
ASHLAR_EXPORT Result<DeviceIndex> try_parse_accelerator(std::string_view name);
inline DeviceIndex parse_accelerator(std::string_view name) {
  return try_parse_accelerator(name).value();
}

}  // namespace ashlar
