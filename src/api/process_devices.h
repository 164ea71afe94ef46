// SPDX-License-Identifier: Apache-2.0
//
// The devices of all back ends, opened once per process on first use: for the C API and the PyTorch
// plug-in, which name devices instead of owning them. Thread safe.
#pragma once

#include <string_view>

#include "device/registry.h"

namespace ashlar {

// The back ends, configured by the environment. Never closed, because a driver may be unloaded
// before static destructors run. kInvalidArgument: a variable is malformed.
Result<const Registry*> process_registry();

// kInvalidArgument: no back end with that name, or no device with that index. kUnsupported: the
// back end is not available on this machine; the message gives the reason.
Result<Device*> process_device(std::string_view backend, size_t index);

}  // namespace ashlar
