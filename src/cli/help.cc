// SPDX-License-Identifier: Apache-2.0
//
// `ashlar help` and `ashlar completion`: help on a command or topic, the man page, and completion
// scripts. All texts are generated from the options that the commands declare and from the table of
// environment variables.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help/completion.h"
#include "cli/help/environment_help.h"
#include "cli/help/man_page.h"
#include "cli/subcommand.h"
#include "config/nearest_name.h"

namespace ashlar {
namespace {

constexpr std::string_view kEnvironmentTopic = "environment";

struct HelpArguments {
  std::string topic{};
  bool man = false;
};

CommandFunction prepare_help(CLI::App& parser);
CommandFunction prepare_completion(CLI::App& parser);

}  // namespace

const Subcommand kHelp = {
    .name = "help",
    .summary = "Show help on a command, or on environment variables",
    .prepare = prepare_help,
    .ignores_environment = true,
};

const Subcommand kCompletion = {
    .name = "completion",
    .summary = "Print a completion script for a shell",
    .prepare = prepare_completion,
    .ignores_environment = true,
};

namespace {

ExitCode run_help(const HelpArguments& arguments, const CLI::App& root, Console& console) {
  if (arguments.man) {
    console.print(man_page(describe_commands(root), kToolVersion));
    return ExitCode::kSuccess;
  }
  if (arguments.topic == kEnvironmentTopic) {
    console.print(environment_help());
    return ExitCode::kSuccess;
  }
  if (arguments.topic.empty()) {
    // App::help would print the help of the parsed command, which is `help`.
    console.print(root.get_formatter()->make_help(&root, "ashlar", CLI::AppFormatMode::Normal));
    return ExitCode::kSuccess;
  }
  std::vector<std::string> names = {std::string(kEnvironmentTopic)};
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == arguments.topic) {
      console.print(command->help("ashlar"));
      return ExitCode::kSuccess;
    }
    names.push_back(command->get_name());
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::optional<std::string_view> nearest = nearest_name(arguments.topic, known);
  console.print_message(fmt::format(
      "help: unknown topic \"{}\"; {}", arguments.topic,
      nearest ? fmt::format("did you mean {}?", *nearest) : std::string("see ashlar --help")));
  return ExitCode::kInvalidArgument;
}

CommandFunction prepare_help(CLI::App& parser) {
  auto arguments = std::make_shared<HelpArguments>();
  parser.add_option("TOPIC", arguments->topic, "A command, or \"environment\"");
  parser.add_flag("--man", arguments->man, "Print the man page, in roff")->disable_flag_override();
  return [arguments, root = parser.get_parent()](const Session& session) {
    return run_help(*arguments, *root, session.console);
  };
}

CommandFunction prepare_completion(CLI::App& parser) {
  auto shell = std::make_shared<std::string>();
  parser.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  parser.footer(
      "Load it in the current shell:\n"
      "  bash: source <(ashlar completion bash)\n"
      "  zsh:  source <(ashlar completion zsh)\n"
      "  fish: ashlar completion fish | source");
  return [shell, root = parser.get_parent()](const Session& session) {
    const std::vector<CommandInfo> commands = describe_commands(*root);
    session.console.print(*shell == "bash"  ? bash_completion(commands)
                          : *shell == "zsh" ? zsh_completion(commands)
                                            : fish_completion(commands));
    return ExitCode::kSuccess;
  };
}

}  // namespace
}  // namespace ashlar
