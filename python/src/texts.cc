// SPDX-License-Identifier: Apache-2.0
//
// Converts text with Python's own codecs.
#include "texts.h"

#include "api/unwrap.h"
#include "base/text.h"

namespace ashlar::python {

py::str decode_utf8(std::string_view bytes) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

std::string encode_utf8(py::handle text) {
  PyObject* encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace");
  if (encoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(encoded);
}

std::string repr_of(py::handle object) { return encode_utf8(py::repr(object)); }

std::string path_argument(const py::object& path) {
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &encoded) != 0) {
    return py::reinterpret_steal<py::bytes>(encoded);
  }
  if (PyErr_ExceptionMatches(PyExc_ValueError) == 0) throw py::error_already_set();
  PyErr_Clear();
  unwrap(
      Status::invalid_argument(text("path: ", repr_of(path), " is not a file name",
                                    " (expected a name without NUL, in the system's encoding)")));
  return {};
}

}  // namespace ashlar::python
