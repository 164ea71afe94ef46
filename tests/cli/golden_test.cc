// SPDX-License-Identifier: Apache-2.0
//
// Compares the text output of commands with golden files. The first line of a golden file is its
// command; tools/bless.py writes the lines below it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/run_cli.h"

namespace ashlar {
namespace {

const std::filesystem::path kGolden = ASHLAR_GOLDEN_FOLDER;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the run that the first line of a golden file describes, such as "$ LC_ALL=C ashlar leaks
// FILE".
CliRun run_for(const std::string& command) {
  CliRun run = {.arguments = {},
                .environment = {{"LC_ALL", "C.UTF-8"}},
                .folder = (kGolden / "traces").string()};
  std::istringstream words(command);
  std::string word;
  words >> word;
  EXPECT_EQ(word, "$") << command;
  for (words >> word; words && word != "ashlar"; words >> word) {
    const size_t equals = word.find('=');
    run.environment[word.substr(0, equals)] = word.substr(equals + 1);
  }
  while (words >> word) run.arguments.push_back(word);
  return run;
}

TEST(CliGoldenTest, OutputMatchesGoldenFiles) {
  std::set<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(kGolden / "cli")) {
    files.insert(file.path());
  }
  ASSERT_GE(files.size(), 9U) << "golden files are missing";
  for (const std::filesystem::path& file : files) {
    const std::string golden = contents(file);
    const std::string command = golden.substr(0, golden.find('\n'));
    const CliOutcome outcome = run_cli(run_for(command));
    const std::string found = command + "\n" + outcome.out + outcome.err + "exit " +
                              std::to_string(outcome.exit_code) + "\n";
    EXPECT_EQ(found, golden) << file.filename() << ": if this is intended, run tools/bless.py";
  }
}

}  // namespace
}  // namespace ashlar
