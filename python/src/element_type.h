// SPDX-License-Identifier: Apache-2.0
//
// Types of elements under numpy's names, and what the protocols call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <pybind11/pybind11.h>

namespace ashlar::python {

struct ElementType {
  std::string_view name;  // "float32"
  uint8_t dlpack_code;    // DLDataTypeCode
  uint8_t bits;
  const char* typestr;  // of __cuda_array_interface__; null: it knows no such type
  const char* format;   // of the buffer protocol; null: likewise

  size_t bytes() const { return bits / 8; }
};

// A name, or whatever PyTorch or numpy takes for a type. Throws InvalidArgument, with the names
// that there are.
const ElementType& element_type(const pybind11::object& dtype);

// Elements in rows, without gaps.
struct ArrayShape {
  const ElementType* type = nullptr;
  std::vector<int64_t> shape{};

  size_t bytes() const;
  std::vector<int64_t> strides() const;  // in elements
};

// shape: None (as many as fit), a number, or a sequence of numbers. Throws InvalidArgument if it
// does not fit into `room_bytes`.
ArrayShape array_shape(const pybind11::object& dtype, const pybind11::object& shape,
                       size_t room_bytes);

// "float32 (2, 3)".
std::string shape_text(const ArrayShape& shape);

}  // namespace ashlar::python
