// SPDX-License-Identifier: Apache-2.0
//
// Lets a test control a stand-in driver, for example restart it with another machine, pause
// streams, or make calls fail. The library stays loaded.
#pragma once

#include <string>

#include "ashlar/sim.h"
#include "standin/core.h"

namespace ashlar::standin {

// Functions that the stand-in libraries export in addition to the vendor's. Test and library come
// from the same build, so that C++ types can be passed.
struct ControlTable {
  void (*restart)(const sim::Options& options, const Features& features);
  Status (*pause_stream)(DeviceIndex device, StreamId stream);
  Status (*resume_stream)(DeviceIndex device, StreamId stream);
  void (*inject)(const sim::FaultRule& rule);
  void (*clear_faults)();
  void (*lose)(DeviceIndex device, const Status& reason);
  int (*use_count)(size_t device);
  // See Core::set_result.
  void (*set_result)(const std::string& call, Code code);
  size_t (*multicast_count)();  // number of multicast objects that are not released
  size_t (*extent_count)();     // number of extents that are not released
  size_t (*multimem_count)();   // number of launched multimem kernels
  // Between these calls, the driver destroys no user objects.
  void (*pause_callbacks)();
  void (*resume_callbacks)();
};

// REQUIRES: `library` is the path of a stand-in driver. Throws if it cannot be loaded.
const ControlTable& control_of(const std::string& library);

}  // namespace ashlar::standin
