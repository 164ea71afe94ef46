// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python classes HostAllocator and HostBuffer (include/ashlar/host.h).
#pragma once

#include <pybind11/pybind11.h>

namespace ashlar::python {

void bind_host_memory(pybind11::module_& module);

}  // namespace ashlar::python
