// SPDX-License-Identifier: Apache-2.0
//
// What a gate found, in the forms that continuous integration shows.
#pragma once

#include <string>

#include "analysis/gate.h"

namespace ashlar {

struct GateReport {
  std::string base{};  // the files, as they were named
  std::string now{};
  GateResult result{};
};

std::string gate_as_text(const GateReport& report);
std::string gate_as_markdown(const GateReport& report);
// One test case for each check.
std::string gate_as_junit(const GateReport& report);

// Text as it may stand in XML, also in an attribute. What XML has no place for becomes "?".
std::string escape_xml(std::string_view text);

}  // namespace ashlar
