// SPDX-License-Identifier: Apache-2.0
//
// Exports host-accessible memory to numpy, the buffer protocol and DLPack.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "dlpack.h"
#include "element_type.h"

namespace ashlar::python {

// Host-accessible memory with an element type and shape. This is also the Python object _HostBytes,
// which exports the memory through the buffer protocol.
struct HostBytes {
  std::shared_ptr<void> owner{};  // keeps the memory alive; shared with Python objects
  void* data = nullptr;
  ArrayShape shape{};
  bool is_writable = true;
};

// These functions return a view without copying. They throw InvalidArgument for types that numpy
// does not support.
py::object as_memoryview(HostBytes bytes);
py::object as_numpy(HostBytes bytes);

// Exports host memory as to_dlpack() does.
py::capsule host_to_dlpack(HostBytes bytes, DlpackDevice kind, const DlpackRequest& request);

void bind_host_bytes(py::module_& module);

}  // namespace ashlar::python
