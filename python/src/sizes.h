// SPDX-License-Identifier: Apache-2.0
//
// Converts numbers and sizes in Python arguments. Accepts numpy integers; rejects booleans.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ashlar::python {

namespace py = pybind11;

// Converts a size, which is a number of bytes, or a string such as "1KiB". For anything else,
// throws InvalidArgument with a message that names the argument.
size_t size_argument(const py::object& size, const char* argument);

// Converts a number from 0 to `max`. For anything else, throws InvalidArgument with a message that
// names the argument.
uint64_t number_argument(const py::object& number, const char* argument, uint64_t max = UINT64_MAX);

// Like number_argument(), but returns nullopt instead of throwing InvalidArgument.
std::optional<uint64_t> try_number(const py::object& number);

}  // namespace ashlar::python
