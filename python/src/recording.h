// SPDX-License-Identifier: Apache-2.0
//
// Recorded runs in Python, and what they answer.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "ashlar/snapshot.h"
#include "devices.h"

namespace ashlar::python {

// A run that was recorded just now, in this process.
py::object recorded_run_of(Snapshot snapshot, const DeviceUse& device);

void bind_recordings(py::module_& module);

}  // namespace ashlar::python
