// SPDX-License-Identifier: Apache-2.0
//
// Converts the JSON results of analyses (src/analysis/report_json) to Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <nlohmann/json_fwd.hpp>

namespace ashlar::python {

// Converts a value as json.loads does. Replaces invalid UTF-8 by U+FFFD.
pybind11::object as_python(const nlohmann::ordered_json& value);

}  // namespace ashlar::python
