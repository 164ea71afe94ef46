// SPDX-License-Identifier: Apache-2.0
//
// The way to a device: the back ends of this build, whether each can be used here and why not, and
// the devices behind them. One row of the table in registry.cc per back end; the simulated one
// is always there, unless the system refuses it memory.
//
// Constant after construction, so any thread may ask. Options are an argument: the text and the
// environment they come from are read in config/, by whoever makes the registry.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "ashlar/device.h"
#include "ashlar/devices.h"
#include "ashlar/sim.h"
#include "ashlar/status.h"

namespace ashlar {

// One field for each back end that takes options.
struct BackendOptions {
  sim::Options sim{};
  DriverOptions cuda{};
  DriverOptions hip{};
};

// A back end as this machine sees it. Not available: no devices. Available: perhaps none, too.
class Backend {
 public:
  Backend(std::string_view name, Result<std::unique_ptr<DeviceSet>> opened);

  std::string_view name() const { return name_; }
  // Ok, or the reason why the back end cannot be used here.
  const Status& availability() const { return availability_; }
  bool is_available() const { return availability_.ok(); }
  // In the order of their index; empty when not available. The registry owns them.
  const std::vector<Device*>& devices() const { return devices_; }

 private:
  std::string_view name_;
  Status availability_;
  std::unique_ptr<DeviceSet> owner_;  // null when not available
  std::vector<Device*> devices_;      // point into owner_
};

class Registry {
 public:
  // Opens every back end that this machine can offer. A vendor's driver that is not there is no
  // failure: its back end says so. kInvalidArgument: an option makes no sense.
  static Result<Registry> create(const BackendOptions& options);

  // In the order of the table: sim first, since it is always there.
  const std::vector<Backend>& backends() const { return backends_; }
  // Null when there is no such back end in this build.
  const Backend* find(std::string_view name) const;
  // The devices of all back ends, in their order.
  std::vector<Device*> devices() const;

 private:
  explicit Registry(std::vector<Backend> backends) : backends_(std::move(backends)) {}

  std::vector<Backend> backends_;
};

}  // namespace ashlar
