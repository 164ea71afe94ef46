// SPDX-License-Identifier: Apache-2.0
//
// Determines how much address space an expandable segment reserves: the options set it for all
// streams or for a class of streams. Guarded by the engine's lock.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ashlar/device.h"
#include "ashlar/options.h"

namespace ashlar::classic {

class ReservePolicy {
 public:
  // `options` outlives the policy.
  ReservePolicy(const AllocatorOptions& options, size_t capacity_bytes)
      : options_(options), capacity_bytes_(capacity_bytes) {}

  // Sets the class of a stream. An empty name clears it.
  void set_stream_class(StreamId stream, std::string name);
  std::string stream_class(StreamId stream) const;  // empty if the stream has no class
  void set_default_fraction(const std::string& class_name, double capacity_fraction) {
    default_fractions_[class_name] = capacity_fraction;
  }

  // Returns the number of bytes of address space that a segment of the stream reserves: a multiple
  // of `granule_bytes`.
  size_t reserve_bytes(StreamId stream, size_t granule_bytes) const;

 private:
  std::optional<ReserveSize> setting_for(StreamId stream) const;

  const AllocatorOptions& options_;
  const size_t capacity_bytes_;
  std::map<StreamId, std::string> stream_classes_;
  std::map<std::string, double> default_fractions_;  // keyed by class
};

}  // namespace ashlar::classic
