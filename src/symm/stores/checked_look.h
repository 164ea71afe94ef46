// SPDX-License-Identifier: Apache-2.0
//
// Looks of those who wait. Stores may be users' own: an answer is counted before anybody indexes
// it.
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
inline Result<std::vector<std::optional<std::string>>> checked_look(
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
inline Deadline with_a_last_look(Deadline deadline) {
  const Deadline least = Deadline::after(std::chrono::milliseconds(500));
  return least.at() > deadline.at() ? least : deadline;
}

inline Deadline sooner(Deadline one, Deadline other) { return one.at() < other.at() ? one : other; }

}  // namespace ashlar::symm
