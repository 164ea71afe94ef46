// SPDX-License-Identifier: Apache-2.0
//
// A stream with the device that runs it: streams are numbered by each device for itself.
#pragma once

#include "ashlar/device.h"
#include "ashlar/types.h"

namespace ashlar {

struct StreamUse {
  Device* device = nullptr;
  StreamId stream{};
  friend bool operator==(const StreamUse&, const StreamUse&) = default;
};

}  // namespace ashlar
