// SPDX-License-Identifier: Apache-2.0
//
// Streams that one thread creates and destroys: their blocks live on, or were freed with work
// pending.
#pragma once

#include <optional>

#include "environment.h"

namespace ashlar::stress {

class TransientStreams {
 public:
  TransientStreams(Environment& field, Random& random) : environment_(field), random_(random) {}

  void act();
  void free_all();
  size_t live_count(size_t device) const {
    return live_.count_on(device) + orphans_.count_on(device);
  }

 private:
  void make_stream();
  void allocate();
  void destroy();
  void free_orphan();

  Environment& environment_;
  Random& random_;
  std::optional<DeviceStream> stream_;
  size_t device_ = 0;         // of the stream and all blocks
  LiveBlocks live_;           // of the stream
  DeviceStream successor_{};  // ordered after the previous stream, if there are orphans
  LiveBlocks orphans_;        // of the previous stream
};

}  // namespace ashlar::stress
