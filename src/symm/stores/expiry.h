// SPDX-License-Identifier: Apache-2.0
//
// How keys end that somebody may still need, and nobody is going to erase.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "ashlar/store.h"
#include "symm/stores/checked_look.h"

namespace ashlar::symm {

// What is there of the keys has `life` left from now on. As far as the store answers: it may be
// what failed, and then everything ends with the life that it was given at first.
inline void fade(Store& store, std::span<const std::string> keys, std::chrono::milliseconds life,
                 Deadline deadline) {
  const auto found = checked_look(store, keys, deadline);
  if (!found.ok()) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::optional<std::string>& value = (*found)[i];
    if (value) (void)store.set(keys[i], *value, life, deadline).ok();
  }
}

}  // namespace ashlar::symm
