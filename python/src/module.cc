// SPDX-License-Identifier: Apache-2.0
//
// ashlar._ashlar: the library for Python. Each file here binds one part of it; the package in
// python/ashlar adds what is better said in Python.
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

// What __init__ never saw has arbitrary memory for its value. With functions of their own for
// making objects, Python refuses to make one by Class.__new__ alone, which is that of a base.
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
  module.doc() = "The library behind the package ashlar.";
  module.attr("__version__") = ASHLAR_VERSION;
  prepare_for_forks();
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
  // Functions registered last run first, so this is nearly the end; hooks are silent from then on.
  pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function(end_of_interpreter));
}
