// SPDX-License-Identifier: Apache-2.0
//
// Numbers and sizes in Python arguments. Accepts numpy integers; rejects booleans.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ashlar::python {

namespace py = pybind11;

// 1024, or "1KiB". Throws InvalidArgument, which names the argument, for anything else.
size_t bytes_of(const py::object& size, const char* argument);

// A number from 0 to `most`. Throws InvalidArgument, which names the argument, for anything else.
uint64_t number_of(const py::object& number, const char* argument, uint64_t most = UINT64_MAX);

// Like number_of(), but returns an empty value instead of throwing.
std::optional<uint64_t> try_number_of(const py::object& number);

}  // namespace ashlar::python
