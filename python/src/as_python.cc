// SPDX-License-Identifier: Apache-2.0
//
// Converts JSON values recursively.
#include "as_python.h"

#include <nlohmann/json.hpp>

#include <string>

#include "texts.h"

namespace ashlar::python {
py::object as_python(const nlohmann::ordered_json& value) {
  if (value.is_null()) return py::none();
  if (value.is_boolean()) return py::bool_(value.get<bool>());
  if (value.is_number_unsigned()) return py::int_(value.get<uint64_t>());
  if (value.is_number_integer()) return py::int_(value.get<int64_t>());
  if (value.is_number_float()) return py::float_(value.get<double>());
  if (value.is_string()) return decode_utf8(value.get_ref<const std::string&>());
  if (value.is_array()) {
    py::list list;
    for (const auto& each : value) list.append(as_python(each));
    return list;
  }
  py::dict dict;
  for (const auto& [name, each] : value.items()) dict[decode_utf8(name)] = as_python(each);
  return dict;
}

}  // namespace ashlar::python
