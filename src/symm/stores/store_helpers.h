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

// Store::look, with an answer for each key. kFormat: there were more, or fewer.
inline Result<std::vector<std::optional<std::string>>> checked_try_get(
    Store& store, std::span<const std::string> keys, Deadline deadline) {
  Result<std::vector<std::optional<std::string>>> found = store.try_get(keys, deadline);
  if (found.ok() && found->size() != keys.size()) {
    return Status::format(
        text("the store was asked for ", keys.size(), " keys and answered for ", found->size()));
  }
  return found;
}

// For a look that is the last when the deadline has passed: a store that is only slow has this long
// to answer, or it would be named in place of those who did not come.
inline Deadline allow_final_attempt(Deadline deadline) {
  const Deadline least = Deadline::after(std::chrono::milliseconds(500));
  return least.at() > deadline.at() ? least : deadline;
}

inline Deadline sooner(Deadline one, Deadline other) { return one.at() < other.at() ? one : other; }

// What is there of the keys has `life` left from now on. As far as the store answers: it may be
// what failed, and then everything ends with the life that it was given at first.
inline void expire_keys(Store& store, std::span<const std::string> keys,
                        std::chrono::milliseconds life, Deadline deadline) {
  const auto found = checked_try_get(store, keys, deadline);
  if (!found.ok()) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::optional<std::string>& value = (*found)[i];
    if (value) (void)store.set(keys[i], *value, life, deadline).ok();
  }
}

}  // namespace ashlar::symm
