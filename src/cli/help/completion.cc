// SPDX-License-Identifier: Apache-2.0
//
// The scripts list all words statically, so that completion starts no process.
#include "cli/help/completion.h"

#include <fmt/format.h>

#include <string_view>

namespace ashlar {
namespace {

std::string joined_names(const std::vector<CommandInfo>& commands) {
  std::vector<std::string> names;
  for (const CommandInfo& command : commands) names.push_back(command.name);
  return fmt::format("{}", fmt::join(names, " "));
}

// Puts text in single quotes, in a form that bash, zsh and fish all accept.
std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

bool takes_file_argument(const CommandInfo& command) {
  for (const OptionInfo& argument : command.arguments) {
    if (argument.takes_file()) return true;
  }
  return command.runs_program;
}

// Returns the words that are accepted as a positional argument, such as "bash zsh fish".
std::string argument_choices(const CommandInfo& command) {
  std::string words;
  for (const OptionInfo& argument : command.arguments) {
    for (const std::string& choice : argument.choices) words += (words.empty() ? "" : " ") + choice;
  }
  return words;
}

// Returns the branches of `case "$command $previous"`, which complete an option's value.
std::string bash_value_cases(const CommandInfo& command) {
  std::string cases;
  for (const OptionInfo& option : command.options) {
    if (option.is_flag()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) {
      patterns.push_back(fmt::format("\"{} {}\"", command.name, name));
    }
    std::string action = "return";
    if (!option.choices.empty()) {
      action = fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return",
                           fmt::join(option.choices, " "));
    } else if (option.takes_file()) {
      action = "COMPREPLY=($(compgen -f -- \"$current\")); return";
    }
    cases += fmt::format("    {}) {} ;;\n", fmt::join(patterns, " | "), action);
  }
  return cases;
}

std::string option_names(const CommandInfo& command) {
  std::string names;
  for (const OptionInfo& option : command.options) {
    for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

// Escapes colons and brackets, which are special in the arguments of zsh's _arguments.
std::string zsh_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_action(const OptionInfo& option) {
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  return option.takes_file() ? "_files" : " ";
}

std::string zsh_arguments(const CommandInfo& command) {
  std::string lines;
  for (const OptionInfo& option : command.options) {
    const std::string value =
        option.is_flag()
            ? ""
            : fmt::format(":{}:{}", zsh_escaped(value_text(option)), zsh_action(option));
    for (const std::string& name : option.names) {
      lines += fmt::format(
          "        {} \\\n",
          shell_quoted(fmt::format("{}[{}]{}", name, zsh_escaped(option.description), value)));
    }
  }
  for (const OptionInfo& argument : command.arguments) {
    lines += fmt::format(
        "        {} \\\n",
        shell_quoted(fmt::format("{}:{}:{}", argument.is_repeatable ? "*" : "",
                                 zsh_escaped(argument.names.front()), zsh_action(argument))));
  }
  if (command.runs_program) lines += "        '*::program:_normal' \\\n";
  return lines + "        && return\n";
}

std::string fish_option(const CommandInfo& command, const OptionInfo& option) {
  std::string line =
      fmt::format("complete -c ashlar -n '__fish_seen_subcommand_from {}'", command.name);
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                   : fmt::format(" -s {}", name.substr(1));
  }
  if (!option.choices.empty()) {
    line += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
  } else if (option.takes_file()) {
    line += " -r -F";
  } else if (!option.is_flag()) {
    line += " -x";
  }
  return fmt::format("{} -d {}\n", line, shell_quoted(option.description));
}

}  // namespace

std::string bash_completion(const std::vector<CommandInfo>& commands) {
  std::string value_cases;
  std::string word_cases;
  for (const CommandInfo& command : commands) {
    value_cases += bash_value_cases(command);
    const std::string choices = argument_choices(command);
    word_cases +=
        fmt::format("    {}) options=\"{}\"; words=\"{}\"; files={} ;;\n", command.name,
                    option_names(command), choices, takes_file_argument(command) ? "yes" : "no");
  }
  return fmt::format(
      "# bash completion for ashlar\n"
      "_ashlar() {{\n"
      "  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" previous=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n"
      "  local command=\"${{COMP_WORDS[1]}}\" options= words= files=no\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$command $previous\" in\n{}  esac\n"
      "  case \"$command\" in\n{}  esac\n"
      "  if [[ \"$current\" == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
      "  elif [ \"$files\" = yes ]; then\n"
      "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _ashlar ashlar\n",
      joined_names(commands), value_cases, word_cases);
}

std::string zsh_completion(const std::vector<CommandInfo>& commands) {
  std::string names;
  std::string cases;
  for (const CommandInfo& command : commands) {
    names +=
        fmt::format("        {}\n",
                    shell_quoted(fmt::format("{}:{}", command.name, zsh_escaped(command.summary))));
    cases += fmt::format("    {})\n      _arguments \\\n{}      ;;\n", command.name,
                         zsh_arguments(command));
  }
  return fmt::format(
      "#compdef ashlar\n"
      "_ashlar() {{\n"
      "  if (( CURRENT == 2 )); then\n"
      "    local -a commands=(\n{}    )\n"
      "    _describe 'command' commands\n"
      "    return\n"
      "  fi\n"
      "  local command=\"${{words[2]}}\"\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case \"$command\" in\n{}  esac\n"
      "}}\n"
      "_ashlar \"$@\"\n",
      names, cases);
}

std::string fish_completion(const std::vector<CommandInfo>& commands) {
  std::string text = "# fish completion for ashlar\ncomplete -c ashlar -f\n";
  for (const CommandInfo& command : commands) {
    text += fmt::format("complete -c ashlar -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        shell_quoted(command.summary));
    for (const OptionInfo& option : command.options) text += fish_option(command, option);
    if (takes_file_argument(command)) {
      text +=
          fmt::format("complete -c ashlar -n '__fish_seen_subcommand_from {}' -F\n", command.name);
    }
    if (const std::string choices = argument_choices(command); !choices.empty()) {
      text += fmt::format("complete -c ashlar -n '__fish_seen_subcommand_from {}' -a '{}'\n",
                          command.name, choices);
    }
  }
  return text;
}

}  // namespace ashlar
