// SPDX-License-Identifier: Apache-2.0
//
// Defines the extension module ashlar._ashlar. Each file in this folder binds some of its classes;
// the package in python/ashlar adds the parts that are written in Python.
#include <pybind11/pybind11.h>

#include "allocator.h"
#include "buffer.h"
#include "devices.h"
#include "errors.h"
#include "fork.h"
#include "gil.h"
#include "host_bytes.h"
#include "host_memory.h"
#include "recording.h"

namespace {

namespace py = pybind11;

PyObject* make_object(PyTypeObject* type, PyObject* arguments, PyObject* named) {
  return py::detail::pybind11_object_new(type, arguments, named);
}

// Objects created by Class.__new__ without __init__ would be uninitialized. Python rejects such a
// call if the class has its own tp_new, so each class gets a tp_new.
void require_init(const py::module_& module) {
  for (const auto& [name, value] : py::dict(module.attr("__dict__"))) {
    if (!PyType_Check(value.ptr())) continue;
    auto* const type = reinterpret_cast<PyTypeObject*>(value.ptr());
    type->tp_new = make_object;
    PyType_Modified(type);
  }
}

}  // namespace

PYBIND11_MODULE(_ashlar, module) {
  using namespace ashlar::python;
  module.doc() = "Extension module of the package ashlar.";
  module.attr("__version__") = ASHLAR_VERSION;
  install_fork_handlers();
  translate_errors();
  bind_devices(module);
  bind_streams(module);
  bind_machines(module);
  bind_buffers(module);
  bind_arrays(module);
  bind_host_bytes(module);
  bind_host_views(module);
  bind_allocators(module);
  bind_host_memory(module);
  bind_recordings(module);
  require_init(module);
  // Python runs atexit functions in reverse order of registration, so functions registered after
  // the import run before the gate is closed. Hooks are not called afterwards.
  pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function(close_gate_at_exit));
}
