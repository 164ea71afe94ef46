// SPDX-License-Identifier: Apache-2.0
//
// Element types by numpy name, with their codes in the exchange protocols.
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
  const char* typestr;  // of __cuda_array_interface__; null: unsupported
  const char* format;   // of the buffer protocol; null: unsupported

  size_t bytes() const { return bits / 8; }
};

// Accepts a name or a type of PyTorch or numpy. Throws InvalidArgument, listing the supported
// names.
const ElementType& element_type(const pybind11::object& dtype);

// A C-contiguous array.
struct ArrayShape {
  const ElementType* type = nullptr;
  std::vector<int64_t> shape{};

  size_t bytes() const;
  std::vector<int64_t> strides() const;  // in elements
};

// shape: None (as many elements as fit), a number, or a sequence of numbers. Throws InvalidArgument
// if it does not fit into `room_bytes`.
ArrayShape array_shape(const pybind11::object& dtype, const pybind11::object& shape,
                       size_t room_bytes);

// "float32 (2, 3)".
std::string shape_text(const ArrayShape& shape);

}  // namespace ashlar::python
