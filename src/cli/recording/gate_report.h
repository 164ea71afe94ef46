// SPDX-License-Identifier: Apache-2.0
//
// The result of `ashlar gate` as text, Markdown and JUnit XML.
#pragma once

#include <string>

#include "analysis/gate.h"

namespace ashlar {

struct GateReport {
  std::string base{};  // file names as given by the user
  std::string now{};
  std::string notes{};  // lines about the recordings, for gate_as_text() only
  GateResult result{};
};

std::string gate_as_text(const GateReport& report);
std::string gate_as_markdown(const GateReport& report);
// Formats one test case per check.
std::string gate_as_junit(const GateReport& report);

// Escapes text for XML content and attributes. Replaces characters that XML forbids by "?".
std::string escape_xml(std::string_view text);

}  // namespace ashlar
