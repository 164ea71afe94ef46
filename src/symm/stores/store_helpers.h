// SPDX-License-Identifier: Apache-2.0
//
// Helpers for code that uses a `Store`. A store may be the user's own implementation, so results
// are validated before they are indexed.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ashlar/store.h"
#include "base/text.h"

namespace ashlar::symm {

// Calls `Store::try_get`. Returns kFormat if the result does not have one entry per key.
inline Result<std::vector<std::optional<std::string>>> checked_try_get(
    Store& store, std::span<const std::string> keys, Deadline deadline) {
  Result<std::vector<std::optional<std::string>>> found = store.try_get(keys, deadline);
  if (found.ok() && found->size() != keys.size()) {
    return Status::format(
        text("the store returned ", found->size(), " values for ", keys.size(), " keys"));
  }
  return found;
}

// Returns `deadline`, or 500 ms from now if that is later. Leaves enough time for the last call to
// the store before a timeout. With less time, the error would blame a slow store instead of the
// missing ranks.
inline Deadline allow_final_attempt(Deadline deadline) {
  const Deadline least = Deadline::after(std::chrono::milliseconds(500));
  return least.at() > deadline.at() ? least : deadline;
}

inline Deadline earlier(Deadline one, Deadline other) {
  return one.at() < other.at() ? one : other;
}

// Makes the keys that exist expire after `time_to_live`. Used for keys that a peer may still need
// and that possibly no rank will erase. Best effort: if the store fails, the keys keep their
// original lifetime.
inline void expire_keys(Store& store, std::span<const std::string> keys,
                        std::chrono::milliseconds time_to_live, Deadline deadline) {
  const auto found = checked_try_get(store, keys, deadline);
  if (!found.ok()) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::optional<std::string>& value = (*found)[i];
    if (value) (void)store.set(keys[i], *value, time_to_live, deadline).ok();
  }
}

}  // namespace ashlar::symm
