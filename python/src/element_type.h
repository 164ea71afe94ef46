// SPDX-License-Identifier: Apache-2.0
//
// The supported element types: their names, and their codes in DLPack, __cuda_array_interface__ and
// the buffer protocol.
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
  const char* typestr;  // code in __cuda_array_interface__; null: unsupported
  const char* format;   // code in the buffer protocol; null: unsupported

  size_t bytes() const { return bits / 8; }
};

// Converts an argument, which may be a name, or a type of PyTorch or numpy. For anything else,
// throws InvalidArgument with a message that lists the supported names.
const ElementType& element_type(const pybind11::object& dtype);

// The element type and shape of a C-contiguous array.
struct ArrayShape {
  const ElementType* type = nullptr;
  std::vector<int64_t> shape{};

  size_t bytes() const;
  std::vector<int64_t> strides() const;  // in elements
};

// Converts arguments. `shape` is None (as many elements as fit), a number, or a sequence of
// numbers. Throws InvalidArgument if the array does not fit into `available_bytes`.
ArrayShape array_shape(const pybind11::object& dtype, const pybind11::object& shape,
                       size_t available_bytes);

// Formats the element type and the shape as "float32 (2, 3)".
std::string format_shape(const ArrayShape& shape);

}  // namespace ashlar::python
