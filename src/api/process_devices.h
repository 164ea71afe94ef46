// SPDX-License-Identifier: Apache-2.0
//
// The devices of all back ends, opened once per process on first use: for the C API and the PyTorch
// plug-in, which name devices instead of owning them. A forked child opens its own. Thread safe.
#pragma once

#include <string_view>

#include "device/registry.h"

namespace ashlar {

// Returns the back ends, which the environment configures. They are never closed, because a driver
// may be unloaded before static destructors run. kInvalidArgument: a variable is malformed.
Result<const Registry*> process_registry();

// Returns a device of a back end. kInvalidArgument: no back end has that name, or no device has
// that index. kUnsupported: the back end is not available on this machine; the message gives the
// reason.
Result<Device*> process_device(std::string_view backend, size_t index);

}  // namespace ashlar
