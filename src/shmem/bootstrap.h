// SPDX-License-Identifier: Apache-2.0
//
// Opens the store in which PEs rendezvous and the transport between machines, as configured in the
// environment.
#pragma once

#include <memory>

#include "ashlar/store.h"
#include "config/shmem_settings.h"
#include "symm/transports/transport.h"

namespace ashlar::shmem {

// Returns kUnsupported if the settings need a library that this build lacks.
Result<std::shared_ptr<symm::Store>> open_store(const ShmemSettings& settings);
// Returns null if the settings specify no transport, and kUnsupported if this build lacks the
// transport.
Result<std::shared_ptr<symm::Transport>> open_transport(const ShmemSettings& settings);

}  // namespace ashlar::shmem
