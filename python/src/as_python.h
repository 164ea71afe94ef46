// SPDX-License-Identifier: Apache-2.0
//
// Converts the JSON of analyses (src/analysis/report_json) to Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <nlohmann/json_fwd.hpp>

namespace ashlar::python {

// Like json.loads. Invalid UTF-8 is replaced.
pybind11::object as_python(const nlohmann::ordered_json& value);

}  // namespace ashlar::python
