// SPDX-License-Identifier: Apache-2.0
//
// A process that is watched while its page is open: what page_handler.cc asks it for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "ashlar/status.h"

namespace ashlar::view {

// Asked by several threads at once.
class Live {
 public:
  virtual ~Live() = default;
  // Its counters now, as JSON: docs/formats/view.md. kPeerLost: it has ended. kTimeout: it does not
  // answer.
  virtual Result<std::string> numbers() = 0;
  // What it holds now, a recording for each of its allocators. Fails likewise.
  virtual Result<std::vector<std::shared_ptr<const Recording>>> take_snapshots() = 0;
};

}  // namespace ashlar::view
