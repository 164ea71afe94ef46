// SPDX-License-Identifier: Apache-2.0
//
// What there is once per process: the devices of all back ends, opened when somebody first asks for
// one by name. For those who cannot be given a Device: the C border, and the plug-in for PyTorch.
// Thread safe.
#pragma once

#include <string_view>

#include "device/registry.h"

namespace ashlar {

// The back ends, as the environment shapes them; the same answer each time. kInvalidArgument: the
// environment makes no sense. They are never closed: at the end of the process a driver may be gone
// before us.
Result<const Registry*> process_registry();

// kInvalidArgument: no back end of that name, or no device of that index. kUnsupported: this
// machine does not have the back end; the message says why.
Result<Device*> process_device(std::string_view backend, size_t index);

}  // namespace ashlar
