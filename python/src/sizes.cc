// Numbers, or text with a unit.
#include "sizes.h"

#include <string>

#include "api/unwrap.h"
#include "base/text.h"
#include "base/units.h"

namespace ashlar::python {

size_t bytes_of(const py::object& size, const char* argument) {
  if (py::isinstance<py::str>(size)) {
    const Result<size_t> bytes = parse_bytes(size.cast<std::string>());
    if (!bytes.ok()) unwrap(Status::usage(text(argument, ": ", bytes.status().message())));
    return *bytes;
  }
  // Numpy's integers, too; True is no size.
  if (PyIndex_Check(size.ptr()) != 0 && !py::isinstance<py::bool_>(size)) {
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(size.ptr()));
    if (!number) throw py::error_already_set();
    const size_t bytes = PyLong_AsSize_t(number.ptr());
    if (PyErr_Occurred() == nullptr) return bytes;
    PyErr_Clear();
  }
  unwrap(Status::usage(text(argument, ": ", std::string(py::str(py::repr(size))),
                            " is not a size (expected bytes, or a text such as 80GiB)")));
  return 0;
}

}  // namespace ashlar::python
