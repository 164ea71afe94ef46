// SPDX-License-Identifier: Apache-2.0
//
// Streams that one thread creates, and destroys while they have live blocks and freed blocks with
// queued work.
#pragma once

#include <optional>

#include "environment.h"

namespace ashlar::stress {

class TransientStreams {
 public:
  TransientStreams(Environment& environment, Random& random)
      : environment_(environment), random_(random) {}

  void step();
  void free_all();
  size_t live_count(size_t device) const {
    return live_.count_on(device) + orphaned_blocks_.count_on(device);
  }

 private:
  void make_stream();
  void allocate();
  void destroy();
  void free_orphaned_block();

  Environment& environment_;
  Random& random_;
  std::optional<DeviceStream> stream_;
  size_t device_ = 0;           // the device of the streams and all blocks
  LiveBlocks live_;             // blocks of the current stream
  LiveBlocks orphaned_blocks_;  // blocks of the previous stream, which was destroyed
  DeviceStream successor_{};    // ordered after the previous stream
};

}  // namespace ashlar::stress
