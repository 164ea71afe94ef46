// ashlar._ashlar: the library for Python. Each file here binds one part of it; the package in
// python/ashlar adds what is better said in Python.
#include <pybind11/pybind11.h>

#include "allocator.h"
#include "buffer.h"
#include "devices.h"
#include "errors.h"
#include "gil.h"
#include "recording.h"

PYBIND11_MODULE(_ashlar, module) {
  using namespace ashlar::python;
  module.doc() = "The library behind the package ashlar.";
  module.attr("__version__") = ASHLAR_VERSION;
  translate_errors();
  bind_devices(module);
  bind_streams(module);
  bind_machines(module);
  bind_buffers(module);
  bind_arrays(module);
  bind_host_views(module);
  bind_allocators(module);
  bind_recordings(module);
  // Functions registered last run first, so this is nearly the end; hooks are silent from then on.
  pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function(end_of_interpreter));
}
