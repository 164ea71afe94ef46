// SPDX-License-Identifier: Apache-2.0
//
// Parses numbers and sizes with units.
#include "sizes.h"

#include <string>

#include "api/unwrap.h"
#include "base/text.h"
#include "base/units.h"
#include "texts.h"

namespace ashlar::python {

std::optional<uint64_t> try_number(const py::object& number) {
  if (PyIndex_Check(number.ptr()) == 0 || py::isinstance<py::bool_>(number)) return std::nullopt;
  const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
  if (!whole) throw py::error_already_set();
  const uint64_t found = PyLong_AsUnsignedLongLong(whole.ptr());
  if (PyErr_Occurred() == nullptr) return found;
  PyErr_Clear();  // the number is negative or too large
  return std::nullopt;
}

uint64_t number_argument(const py::object& number, const char* argument, uint64_t max) {
  const std::optional<uint64_t> found = try_number(number);
  if (!found || *found > max) {
    const std::string end = max == UINT64_MAX ? "0 or more" : text("0 to ", max);
    unwrap(Status::invalid_argument(
        text(argument, ": ", repr_of(number), " is not a valid number (expected ", end, ")")));
  }
  return *found;
}

size_t size_argument(const py::object& size, const char* argument) {
  if (py::isinstance<py::str>(size)) {
    const Result<size_t> bytes = parse_bytes(encode_utf8(size));
    if (!bytes.ok())
      unwrap(Status::invalid_argument(text(argument, ": ", bytes.status().message())));
    return *bytes;
  }
  const std::optional<uint64_t> bytes = try_number(size);
  if (!bytes) {
    unwrap(Status::invalid_argument(
        text(argument, ": ", repr_of(size),
             " is not a size (expected bytes, or a string such as 80GiB)")));
  }
  return *bytes;
}

}  // namespace ashlar::python
