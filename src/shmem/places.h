// SPDX-License-Identifier: Apache-2.0
//
// Where PEs meet, and how they reach other machines, as the settings say.
#pragma once

#include <memory>

#include "ashlar/store.h"
#include "config/shmem_settings.h"
#include "symm/transports/transport.h"

namespace ashlar::shmem {

// kUnsupported: it needs a library that this one was built without.
Result<std::shared_ptr<symm::Store>> open_store(const ShmemSettings& settings);
// Null: none is wanted.
Result<std::shared_ptr<symm::Transport>> open_transport(const ShmemSettings& settings);

}  // namespace ashlar::shmem
