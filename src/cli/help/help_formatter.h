// SPDX-License-Identifier: Apache-2.0
//
// The layout of `--help`: aligned columns, wrapped at 80 columns, bold headings.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ashlar {

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace ashlar
