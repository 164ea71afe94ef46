// SPDX-License-Identifier: Apache-2.0
//
// Contains the table of element types, and shape arithmetic.
#include "element_type.h"

#include <array>

#include "api/unwrap.h"
#include "base/text.h"
#include "texts.h"

namespace ashlar::python {
namespace {

namespace py = pybind11;

// DLPack's codes: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool.
constexpr std::array<ElementType, 15> kElementTypes = {{
    {"uint8", 1, 8, "|u1", "B"},
    {"int8", 0, 8, "|i1", "b"},
    {"uint16", 1, 16, "<u2", "H"},
    {"int16", 0, 16, "<i2", "h"},
    {"uint32", 1, 32, "<u4", "I"},
    {"int32", 0, 32, "<i4", "i"},
    {"uint64", 1, 64, "<u8", "Q"},
    {"int64", 0, 64, "<i8", "q"},
    {"float16", 2, 16, "<f2", "e"},
    {"float32", 2, 32, "<f4", "f"},
    {"float64", 2, 64, "<f8", "d"},
    {"bfloat16", 4, 16, nullptr, nullptr},
    {"complex64", 5, 64, "<c8", "Zf"},
    {"complex128", 5, 128, "<c16", "Zd"},
    {"bool", 6, 8, "|b1", "?"},
}};

const ElementType* find_type(std::string_view name) {
  for (const ElementType& each : kElementTypes) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

[[noreturn]] void throw_bad_dtype(const py::object& dtype, const char* why) {
  std::string names;
  for (const ElementType& each : kElementTypes) names += text(names.empty() ? "" : ", ", each.name);
  throw_status(Status::invalid_argument(
      text("dtype: ", repr_of(dtype), why, " (expected one of ", names, ")")));
}

// Throws InvalidArgument for a big-endian type, because devices are little-endian.
void require_little_endian(const py::object& dtype, const py::object& given) {
  if (py::object(py::getattr(dtype, "byteorder", py::none())).equal(py::str(">"))) {
    throw_bad_dtype(given, " has its high bytes first (expected little-endian)");
  }
}

// Converts any value that numpy accepts as a type, such as float, "f4" or numpy.longlong. Returns
// null if numpy is not installed or does not accept it.
py::object as_numpy_type(const py::object& dtype) {
  if (dtype.is_none()) return {};
  try {
    return py::module_::import("numpy").attr("dtype")(dtype);
  } catch (py::error_already_set& failure) {
    if (failure.matches(PyExc_TypeError) || failure.matches(PyExc_ValueError) ||
        failure.matches(PyExc_ImportError)) {
      return {};
    }
    throw;
  }
}

int64_t dimension_of(py::handle number) {
  if (PyIndex_Check(number.ptr()) == 0) {
    unwrap(
        Status::invalid_argument(text("shape: ", repr_of(number), " is not a number of elements")));
  }
  const Py_ssize_t dimension = PyNumber_AsSsize_t(number.ptr(), PyExc_OverflowError);
  if (dimension == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw py::error_already_set();
    PyErr_Clear();
    unwrap(Status::invalid_argument(
        text("shape: ", repr_of(number), " elements do not fit anywhere")));
  }
  if (dimension < 0) unwrap(Status::invalid_argument(text("shape: ", dimension, " is below 0")));
  return dimension;
}

std::vector<int64_t> dimensions_of(const py::object& shape) {
  if (PyIndex_Check(shape.ptr()) != 0) return {dimension_of(shape)};
  if (!py::isinstance<py::iterable>(shape)) {
    unwrap(Status::invalid_argument(
        text("shape: ", repr_of(shape),
             " is none (expected a number, a sequence of numbers, or None)")));
  }
  std::vector<int64_t> dimensions;
  for (py::handle dimension : shape) dimensions.push_back(dimension_of(dimension));
  return dimensions;
}

}  // namespace

const ElementType& element_type(const py::object& dtype) {
  require_little_endian(dtype, dtype);
  std::string name;
  if (py::isinstance<py::str>(dtype)) {
    name = encode_utf8(dtype);
  } else if (py::hasattr(dtype, "name")) {
    name = encode_utf8(py::str(dtype.attr("name")));
  } else {
    name = encode_utf8(py::str(dtype));
  }
  constexpr std::string_view kTorch = "torch.";  // prefix of PyTorch's types
  if (name.starts_with(kTorch)) name.erase(0, kTorch.size());
  if (const ElementType* found = find_type(name)) return *found;
  if (const py::object known = as_numpy_type(dtype)) {
    require_little_endian(known, dtype);
    if (const ElementType* found = find_type(encode_utf8(known.attr("name")))) return *found;
  }
  throw_bad_dtype(dtype, " is unknown");
}

// If one dimension is 0, the product of the other dimensions may overflow; the result is still 0.
size_t ArrayShape::bytes() const {
  size_t count = type->bytes();
  for (int64_t dimension : shape) count *= static_cast<size_t>(dimension);
  return count;
}

std::vector<int64_t> ArrayShape::strides() const {
  std::vector<int64_t> strides(shape.size(), 1);
  if (bytes() == 0) return strides;  // strides are unused, and products could overflow
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

ArrayShape array_shape(const py::object& dtype, const py::object& shape, size_t available_bytes) {
  ArrayShape array{.type = &element_type(dtype)};
  const size_t max_elements = available_bytes / array.type->bytes();
  if (shape.is_none()) {
    array.shape = {static_cast<int64_t>(max_elements)};
    return array;
  }
  array.shape = dimensions_of(shape);
  // Divides instead of multiplying to avoid overflow. Shapes with a dimension of 0 always fit.
  size_t left = max_elements;
  bool is_empty = false;
  for (int64_t dimension : array.shape) {
    is_empty = is_empty || dimension == 0;
    left = dimension == 0 ? left : left / static_cast<size_t>(dimension);
  }
  if (!is_empty && left == 0) {
    unwrap(Status::invalid_argument(text("shape: ", format_shape(array), " does not fit into ",
                                         available_bytes, " B (expected at most ", max_elements,
                                         " elements)")));
  }
  return array;
}

std::string format_shape(const ArrayShape& shape) {
  std::string all = text(shape.type->name, " (");
  for (size_t i = 0; i < shape.shape.size(); ++i) all += text(i == 0 ? "" : ", ", shape.shape[i]);
  return all + (shape.shape.size() == 1 ? ",)" : ")");
}

}  // namespace ashlar::python
