// SPDX-License-Identifier: Apache-2.0
//
// Binds the class RecordedRun, which implements ashlar.Recording and its analyses.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "ashlar/snapshot.h"
#include "devices.h"

namespace ashlar::python {

// Creates a RecordedRun from a snapshot of this process.
py::object make_recorded_run(Snapshot snapshot, const DeviceRef& device);

void bind_recordings(py::module_& module);

}  // namespace ashlar::python
