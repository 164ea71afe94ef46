// SPDX-License-Identifier: Apache-2.0
//
// Streams that one thread makes and destroys: their blocks live on, or were freed while there was
// still work on them.
#pragma once

#include <optional>

#include "field.h"

namespace ashlar::stress {

class PassingStreams {
 public:
  PassingStreams(Field& field, Random& random) : field_(field), random_(random) {}

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

  Field& field_;
  Random& random_;
  std::optional<StreamUse> stream_;
  size_t device_ = 0;   // of the stream, and of all blocks
  HeldBlocks live_;     // of the stream
  StreamUse heir_{};    // in order with the stream that was there before, if there are orphans
  HeldBlocks orphans_;  // of that one
};

}  // namespace ashlar::stress
