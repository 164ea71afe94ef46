// SPDX-License-Identifier: Apache-2.0
//
// Answers for programs (src/analysis/report_json) as dicts and lists.
#pragma once

#include <pybind11/pybind11.h>

#include <nlohmann/json_fwd.hpp>

namespace ashlar::python {

// As json.loads would have it. Text that is not UTF-8 is repaired.
pybind11::object as_python(const nlohmann::ordered_json& value);

}  // namespace ashlar::python
