// SPDX-License-Identifier: Apache-2.0
//
// Host-accessible memory for numpy, the buffer protocol and DLPack.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "dlpack.h"
#include "element_type.h"

namespace ashlar::python {

// Keeps memory alive for arrays over it.
struct HostBytes {
  std::shared_ptr<void> keeper{};  // shared owner of the memory
  void* data = nullptr;
  ArrayShape shape{};
  bool is_writable = true;
};

// Views without a copy. Throw InvalidArgument for types that numpy does not support.
py::object as_memoryview(HostBytes bytes);
py::object as_numpy(HostBytes bytes);

// to_dlpack() for host memory.
py::capsule host_to_dlpack(HostBytes bytes, DlpackDevice kind, const DlpackRequest& request);

void bind_host_bytes(py::module_& module);

}  // namespace ashlar::python
