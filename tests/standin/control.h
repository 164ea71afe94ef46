// SPDX-License-Identifier: Apache-2.0
//
// What a test can do to a stand-in driver besides calling it: give it another machine, hold its
// streams, make its calls fail. The library is loaded as a back end loads it, and stays.
#pragma once

#include <string>

#include "ashlar/sim.h"
#include "standin/core.h"

namespace ashlar::standin {

// Functions that the libraries export beside the vendor's; all of one build, so that plain C++
// values can cross.
struct ControlTable {
  void (*restart)(const sim::Options& options, const Abilities& abilities);
  Status (*hold)(DeviceIndex device, StreamId stream);
  Status (*resume)(DeviceIndex device, StreamId stream);
  void (*inject)(const sim::FaultRule& rule);
  void (*clear_faults)();
  void (*lose)(DeviceIndex device, const Status& reason);
  int (*use_count)(size_t device);
  // See Core::tell.
  void (*tell)(const std::string& call, Code code);
  size_t (*multicast_count)();  // objects, and below extents, that were not released
  size_t (*extent_count)();
  size_t (*multimem_count)();  // kernels launched that go through multicast
};

// REQUIRES: `library` is the path of a stand-in driver. Throws when it cannot be loaded.
const ControlTable& control_of(const std::string& library);

}  // namespace ashlar::standin
