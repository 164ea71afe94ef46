// Sizes and shapes as Python's callers say them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

namespace ashlar::python {

namespace py = pybind11;

// 1024, or "1KiB". Throws UsageError, which names the argument, for anything else.
size_t bytes_of(const py::object& size, const char* argument);

}  // namespace ashlar::python
