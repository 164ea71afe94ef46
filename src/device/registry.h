// SPDX-License-Identifier: Apache-2.0
//
// The back ends of this build, whether each is available on this machine, and their devices. The
// simulated back end is available unless the system cannot provide the memory that it needs.
//
// Constant after construction, so any thread may use it. config/ reads the options from text and
// environment variables.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "ashlar/device.h"
#include "ashlar/devices.h"
#include "ashlar/sim.h"
#include "ashlar/status.h"

namespace ashlar {

// The options with which Registry::create opens each back end.
struct BackendOptions {
  sim::Options sim{};
  DriverOptions cuda{};
  DriverOptions hip{};
};

// A back end and its devices. An available back end may still have no devices.
class Backend {
 public:
  Backend(std::string_view name, Result<std::unique_ptr<DeviceSet>> opened);

  std::string_view name() const { return name_; }
  // Returns ok, or the reason why the back end is not available.
  const Status& availability() const { return availability_; }
  bool is_available() const { return availability_.ok(); }
  // Returns the devices by index; empty if the back end is not available. The registry owns the
  // devices.
  const std::vector<Device*>& devices() const { return devices_; }

 private:
  std::string_view name_;
  Status availability_;
  std::unique_ptr<DeviceSet> owner_;  // null if the back end is not available
  std::vector<Device*> devices_;      // point into owner_
};

class Registry {
 public:
  // Opens every back end. A missing driver is not an error; its back end is then not available.
  // kInvalidArgument: an option is invalid.
  static Result<Registry> create(const BackendOptions& options);

  // All back ends, in the order sim, cuda, hip.
  const std::vector<Backend>& backends() const { return backends_; }
  // Returns the back end with that name; null if no back end has it.
  const Backend* find(std::string_view name) const;
  // Returns the devices of all back ends, in the order of backends().
  std::vector<Device*> devices() const;

 private:
  explicit Registry(std::vector<Backend> backends) : backends_(std::move(backends)) {}

  std::vector<Backend> backends_;
};

}  // namespace ashlar
