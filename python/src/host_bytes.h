// SPDX-License-Identifier: Apache-2.0
//
// Memory that the host can read, as numpy, the buffer protocol and DLPack see it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "dlpack.h"
#include "element_type.h"

namespace ashlar::python {

// What arrays over it hold on to.
struct HostBytes {
  std::shared_ptr<void> keeper{};  // shared with our own objects: either keeps the memory
  void* data = nullptr;
  ArrayShape shape{};
  bool is_writable = true;
};

// Over the memory itself. Both throw InvalidArgument for a type that numpy does not know.
py::object as_memoryview(HostBytes bytes);
py::object as_numpy(HostBytes bytes);

// As to_dlpack, of host memory of this kind.
py::capsule host_to_dlpack(HostBytes bytes, DlpackDevice kind, const DlpackRequest& request);

void bind_host_bytes(py::module_& module);

}  // namespace ashlar::python
