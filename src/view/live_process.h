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

// Implementations are thread safe.
class LiveProcess {
 public:
  virtual ~LiveProcess() = default;
  // Returns the current statistics as JSON text (docs/reference/formats/view.md).
  // kPeerLost: the process has exited or stopped live monitoring. kTimeout: it does not respond.
  virtual Result<std::string> stats() = 0;
  // Takes a snapshot of each allocator. Errors as for stats(); kInvalidArgument: no allocator.
  virtual Result<std::vector<std::shared_ptr<const Recording>>> take_snapshots() = 0;
};

}  // namespace ashlar::view
