// SPDX-License-Identifier: Apache-2.0
//
// Binds the Python class Recording and its analyses.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "ashlar/snapshot.h"
#include "devices.h"

namespace ashlar::python {

// A recording of the running process.
py::object recorded_run_of(Snapshot snapshot, const DeviceRef& device);

void bind_recordings(py::module_& module);

}  // namespace ashlar::python
