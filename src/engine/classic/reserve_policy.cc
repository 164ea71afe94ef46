// SPDX-License-Identifier: Apache-2.0
//
// Applies the settings in order of precedence: class, all streams, default of the class.
#include "engine/classic/reserve_policy.h"

#include <algorithm>

#include "base/align.h"

namespace ashlar::classic {

void ReservePolicy::set_stream_class(StreamId stream, std::string name) {
  if (name.empty()) {
    stream_classes_.erase(stream);
  } else {
    stream_classes_[stream] = std::move(name);
  }
}

std::string ReservePolicy::stream_class(StreamId stream) const {
  const auto found = stream_classes_.find(stream);
  return found == stream_classes_.end() ? std::string() : found->second;
}

// The default and the maximum are 9/8 of the capacity, as in PyTorch, so that memory unmapped from
// holes in the segment can be mapped again at its end.
size_t ReservePolicy::reserve_bytes(StreamId stream, size_t granule_bytes) const {
  const size_t max_bytes = capacity_bytes_ + capacity_bytes_ / 8;
  size_t wanted_bytes = max_bytes;
  if (const std::optional<ReserveSize> setting = setting_for(stream)) {
    const double share = setting->capacity_fraction * static_cast<double>(capacity_bytes_);
    const bool is_max = share >= static_cast<double>(max_bytes);
    wanted_bytes = setting->bytes != 0 ? setting->bytes
                   : is_max            ? max_bytes
                                       : static_cast<size_t>(share);
  }
  return round_up(std::clamp<size_t>(wanted_bytes, 1, max_bytes), granule_bytes);
}

// Returns the first of these settings that is set: the option for the class, the option for all
// streams, the default of the class.
std::optional<ReserveSize> ReservePolicy::setting_for(StreamId stream) const {
  const auto tagged = stream_classes_.find(stream);
  if (tagged != stream_classes_.end()) {
    const auto by_class = options_.expandable_reserve_by_class.find(tagged->second);
    if (by_class != options_.expandable_reserve_by_class.end()) return by_class->second;
  }
  if (options_.expandable_reserve || tagged == stream_classes_.end()) {
    return options_.expandable_reserve;
  }
  const auto fraction = default_fractions_.find(tagged->second);
  if (fraction == default_fractions_.end()) return std::nullopt;
  return ReserveSize{fraction->second, 0};
}

}  // namespace ashlar::classic
