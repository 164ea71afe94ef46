// SPDX-License-Identifier: Apache-2.0
//
// Generates both texts from the table in config/environment.cc.
#include "cli/help/environment_help.h"

#include <fmt/format.h>

#include "cli/terminal/style.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

std::string default_text_or_none(const EnvironmentVariable& row) {
  return std::string(row.default_text.empty() ? "none" : row.default_text);
}

}  // namespace

std::string machine_variables_text(const Environment& environment) {
  Table table({{"variable"}, {"value"}, {"default"}, {"sets"}});
  for (const EnvironmentVariable& row : environment_variables()) {
    if (row.scope != VariableScope::kSimulatedMachine) continue;
    table.add({std::string(row.name), std::string(environment.value(row.name).value_or("-")),
               default_text_or_none(row), fmt::format("{} ({})", row.sets, row.expected)});
  }
  return table.to_text();
}

std::string environment_help() {
  std::string text;
  for (const EnvironmentVariable& row : environment_variables()) {
    Table table(std::vector<Column>(1));
    table.add(
        {fmt::format("{}: {}. Default: {}.", row.sets, row.expected, default_text_or_none(row))});
    table.add({std::string(row.help)});
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", bold(row.name), table.to_text());
  }
  return text;
}

}  // namespace ashlar
