// SPDX-License-Identifier: Apache-2.0
//
// Helpers for tests of commands: exit codes, recorded traces, and JSON output.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/run_cli.h"

namespace ashlar {

using Json = nlohmann::json;

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitInvalidArgument = 2;
inline constexpr int kExitUnreadableInput = 3;

// Returns the path of a recorded trace, such as trace("oom.1").
inline std::string trace(const std::string& name) {
  return ASHLAR_GOLDEN_FOLDER "/traces/" + name + ".pickle.xz";
}

// Runs a command with --json and parses its output. Expects that it writes nothing to stderr.
inline Json run_json(std::vector<std::string> arguments, int exit_code = kExitSuccess) {
  arguments.emplace_back("--json");
  const CliOutcome outcome = run_cli({.arguments = std::move(arguments)});
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(Json::accept(outcome.out)) << outcome.out;
  return Json::parse(outcome.out, nullptr, false);
}

}  // namespace ashlar
