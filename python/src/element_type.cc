// The table, and the arithmetic of shapes.
#include "element_type.h"

#include <array>

#include "api/unwrap.h"
#include "base/text.h"

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

// Of a text, the text; of numpy's and others' types, what they are called.
std::string name_of(const py::object& dtype) {
  if (py::isinstance<py::str>(dtype)) return dtype.cast<std::string>();
  for (const char* attribute : {"name", "__name__"}) {
    if (py::hasattr(dtype, attribute)) return py::str(dtype.attr(attribute));
  }
  return py::str(dtype);
}

int64_t extent_of(py::handle number) {
  if (PyIndex_Check(number.ptr()) == 0) {
    unwrap(Status::usage(
        text("shape: ", std::string(py::str(py::repr(number))), " is not a number of elements")));
  }
  const Py_ssize_t extent = PyNumber_AsSsize_t(number.ptr(), PyExc_OverflowError);
  if (extent == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (extent < 0) unwrap(Status::usage(text("shape: ", extent, " is below 0")));
  return extent;
}

}  // namespace

const ElementType& element_type(std::string_view name) {
  std::string names;
  for (const ElementType& each : kElementTypes) {
    if (each.name == name) return each;
    names += text(names.empty() ? "" : ", ", each.name);
  }
  unwrap(Status::usage(text("dtype: \"", name, "\" is unknown (expected one of ", names, ")")));
  return kElementTypes[0];
}

size_t ArrayShape::bytes() const {
  size_t count = type->bytes();
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  return count;
}

std::vector<int64_t> ArrayShape::strides() const {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

ArrayShape array_shape(const py::object& dtype, const py::object& shape, size_t room_bytes) {
  ArrayShape wanted{.type = &element_type(name_of(dtype))};
  const size_t room = room_bytes / wanted.type->bytes();
  if (shape.is_none()) {
    wanted.shape = {static_cast<int64_t>(room)};
    return wanted;
  }
  if (PyIndex_Check(shape.ptr()) != 0) {
    wanted.shape = {extent_of(shape)};
  } else {
    for (py::handle extent : shape) wanted.shape.push_back(extent_of(extent));
  }
  // Divided, not multiplied, so that nothing overflows; 0 elements fit anywhere.
  size_t left = room;
  bool is_empty = false;
  for (int64_t extent : wanted.shape) {
    is_empty = is_empty || extent == 0;
    left = extent == 0 ? left : left / static_cast<size_t>(extent);
  }
  if (!is_empty && left == 0) {
    unwrap(Status::usage(text("shape: ", shape_text(wanted), " does not fit into ", room_bytes,
                              " B (expected at most ", room, " elements)")));
  }
  return wanted;
}

std::string shape_text(const ArrayShape& shape) {
  std::string all = text(shape.type->name, " (");
  for (size_t i = 0; i < shape.shape.size(); ++i) all += text(i == 0 ? "" : ", ", shape.shape[i]);
  return all + (shape.shape.size() == 1 ? ",)" : ")");
}

}  // namespace ashlar::python
