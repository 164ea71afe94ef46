// SPDX-License-Identifier: Apache-2.0
//
// Where in the store of an OpenSHMEM job it stands that all PEs are to end, and with which status:
// PEs write it, and their launcher looks.
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

// What stands there, as a shell sees it; none: nothing does, or the store does not say in time.
// What makes no sense counts as 1.
ASHLAR_EXPORT std::optional<int> shmem_exit_status(symm::Store& store, const std::string& job,
                                                   Deadline deadline);

}  // namespace ashlar
