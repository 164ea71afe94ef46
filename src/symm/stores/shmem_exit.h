// SPDX-License-Identifier: Apache-2.0
//
// The store key through which an OpenSHMEM PE requests that the whole job exits. PEs write it; the
// launcher polls it.
#pragma once

#include <optional>
#include <string>

#include "ashlar/deadline.h"
#include "ashlar/export.h"
#include "ashlar/store.h"

namespace ashlar {

inline std::string shmem_exit_key(const std::string& job) {
  return "ashlar-shmem/" + job + "/exit";
}

// Returns the requested exit status (0 to 255), or nothing if no PE has requested an exit or the
// store returns an error. A malformed value counts as 1.
ASHLAR_EXPORT std::optional<int> shmem_exit_status(symm::Store& store, const std::string& job,
                                                   Deadline deadline);

}  // namespace ashlar
