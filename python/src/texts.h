// SPDX-License-Identifier: Apache-2.0
//
// Converts text and paths between Python and C++. Input need not be valid UTF-8: files may contain
// any bytes, and Python text may contain lone surrogates.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

namespace ashlar::python {

namespace py = pybind11;

// Decodes UTF-8. Replaces invalid bytes by U+FFFD.
py::str decode_utf8(std::string_view bytes);

// Encodes Python text. Writes lone surrogates as escapes such as "\udc80".
std::string encode_utf8(py::handle text);

// Returns repr(object), for messages.
std::string repr_of(py::handle object);

// Encodes a str, bytes or os.PathLike for the file system. Throws InvalidArgument for a path that
// has NUL bytes or cannot be encoded, and raises TypeError for other types.
std::string path_argument(const py::object& path);

}  // namespace ashlar::python
