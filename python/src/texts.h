// SPDX-License-Identifier: Apache-2.0
//
// Text and paths on their way to Python and from it. Neither side's text need be UTF-8: files of
// strangers have any bytes, and Python's texts may have halves of characters.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

namespace ashlar::python {

namespace py = pybind11;

// With a mark in place of what is no UTF-8.
py::str text_of(std::string_view bytes);

// A text of Python's; what UTF-8 cannot have is written out: "\udc80".
std::string utf8_of(py::handle text);

// What an object calls itself, for messages.
std::string repr_of(py::handle object);

// A text, bytes, or an os.PathLike, as the system wants it. Throws InvalidArgument for one that no
// file can have, since it has a NUL in it, and raises TypeError for anything else.
std::string path_of(const py::object& path);

}  // namespace ashlar::python
