// SPDX-License-Identifier: Apache-2.0
//
// The interface to a running process that the viewer monitors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "ashlar/status.h"

namespace ashlar::view {

// A process that the viewer monitors. Implementations are thread safe.
class LiveProcess {
 public:
  virtual ~LiveProcess() = default;
  // Returns the current statistics as JSON text (docs/reference/formats/view.md).
  // kPeerLost: the process has exited or stopped live monitoring. kTimeout: the process does not
  // respond.
  virtual Result<std::string> stats() = 0;
  // Takes a snapshot of each allocator. kInvalidArgument: there is no allocator. Other errors are
  // those of stats().
  virtual Result<std::vector<std::shared_ptr<const Recording>>> take_snapshots() = 0;
};

}  // namespace ashlar::view
