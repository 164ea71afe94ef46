// SPDX-License-Identifier: Apache-2.0
//
// Binds _HostBytes, which supports the buffer protocol, and creates memoryviews and numpy arrays
// from it.
#include "host_bytes.h"

#include <utility>
#include <vector>

#include "api/unwrap.h"
#include "base/text.h"

namespace ashlar::python {
namespace {

py::buffer_info python_buffer_info(const HostBytes& bytes) {
  const ArrayShape& shape = bytes.shape;
  const auto item_bytes = static_cast<py::ssize_t>(shape.type->bytes());
  std::vector<py::ssize_t> strides;
  for (int64_t stride : shape.strides()) strides.push_back(stride * item_bytes);
  return {bytes.data,  item_bytes, shape.type->format, static_cast<py::ssize_t>(shape.shape.size()),
          shape.shape, strides,    !bytes.is_writable};
}

}  // namespace

py::object as_memoryview(HostBytes bytes) {
  if (bytes.shape.type->format == nullptr) {
    unwrap(Status::invalid_argument(text("numpy does not support ", bytes.shape.type->name,
                                         " (expected another dtype, or DLPack)")));
  }
  const py::object exporter = py::cast(std::move(bytes));
  PyObject* made = PyMemoryView_FromObject(exporter.ptr());
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object as_numpy(HostBytes bytes) {
  return py::module_::import("numpy").attr("asarray")(as_memoryview(std::move(bytes)));
}

py::capsule host_to_dlpack(HostBytes bytes, DlpackDevice kind, const DlpackRequest& request) {
  return to_dlpack({.owner = std::move(bytes.owner),
                    .data = bytes.data,
                    .device = kind,
                    .device_index = 0,
                    .shape = std::move(bytes.shape),
                    .is_read_only = !bytes.is_writable},
                   request);
}

void bind_host_bytes(py::module_& module) {
  py::class_<HostBytes>(module, "_HostBytes", py::buffer_protocol(),
                        "Keeps memory alive for arrays over it.")
      .def_buffer([](HostBytes& bytes) { return python_buffer_info(bytes); });
}

}  // namespace ashlar::python
