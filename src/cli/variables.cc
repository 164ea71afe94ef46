// SPDX-License-Identifier: Apache-2.0
//
// Both texts come from the one table in config/environment.cc.
#include "cli/variables.h"

#include <fmt/format.h>

#include "cli/table.h"

namespace ashlar {
namespace {

std::string default_of(const EnvironmentVariable& row) {
  return std::string(row.default_text.empty() ? "none" : row.default_text);
}

}  // namespace

std::string machine_variables_in(const Environment& environment) {
  Table table({{"variable"}, {"now"}, {"default"}, {"sets"}});
  for (const EnvironmentVariable& row : environment_variables()) {
    if (row.scope != VariableScope::kSimulatedMachine) continue;
    table.add({std::string(row.name), std::string(environment.value(row.name).value_or("-")),
               default_of(row), fmt::format("{} ({})", row.sets, row.expected)});
  }
  return table.to_text();
}

std::string variables_help() {
  Table table({{}, {}});
  for (const EnvironmentVariable& row : environment_variables()) {
    table.add({std::string(row.name),
               fmt::format("{}: {}. Default: {}.", row.sets, row.expected, default_of(row))});
    table.add({"", std::string(row.help)});
  }
  return table.to_text();
}

}  // namespace ashlar
