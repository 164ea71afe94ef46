// SPDX-License-Identifier: Apache-2.0
//
// See man(7) and groff_man(7) for the macros.
#include "cli/help/man_page.h"

#include <fmt/format.h>

#include <string_view>

#include "base/text.h"
#include "config/environment.h"

namespace ashlar {
namespace {

// Escapes text for roff: backslashes, hyphens (which roff would replace by a typographic
// character), and characters that would make a line a request.
std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) {
      escaped += std::string("\\&") + c;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Formats a tagged paragraph: the tag in bold, the value in italics, and the text below.
std::string tagged(std::string_view tag, std::string_view value, std::string_view text) {
  const std::string in_italics =
      value.empty() ? std::string() : fmt::format(" \\fI{}\\fR", escape(value));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", escape(tag), in_italics, escape(text));
}

std::string option_text(const OptionInfo& option) {
  std::string text = option.description;
  if (!option.default_value.empty()) text += fmt::format(". Default: {}", option.default_value);
  return tagged(fmt::format("{}", fmt::join(option.names, ", ")),
                option.is_positional ? "" : value_text(option), text + ".");
}

// Formats the notes of a command and keeps their line breaks.
std::string notes_text(std::string_view notes) {
  if (notes.empty()) return {};
  std::string text = ".PP\n.nf\n";
  while (!notes.empty()) text += escape(take_line(notes)) + "\n";
  return text + ".fi\n";
}

std::string command_text(const CommandInfo& command) {
  std::string text = fmt::format(".SS \"ashlar {} {}\"\n{}.\n", escape(command.name),
                                 escape(usage_text(command)), escape(command.summary));
  for (const OptionInfo& argument : command.arguments) text += option_text(argument);
  for (const OptionInfo& option : command.options) text += option_text(option);
  return text + notes_text(command.notes);
}

std::string environment_text() {
  std::string text;
  for (const EnvironmentVariable& row : environment_variables()) {
    const std::string_view default_text = row.default_text.empty() ? "none" : row.default_text;
    text += tagged(
        row.name, "",
        fmt::format("{}: {}. Default: {}. {}", row.sets, row.expected, default_text, row.help));
  }
  return text;
}

}  // namespace

std::string man_page(const std::vector<CommandInfo>& commands, std::string_view version) {
  std::string text = fmt::format(
      ".TH ASHLAR 1 \"\" \"Ashlar {}\" \"User Commands\"\n"
      ".SH NAME\nashlar \\- analyze, replay and watch the memory of accelerators\n"
      ".SH SYNOPSIS\n.B ashlar\n.I command\n[\\fIoptions\\fR] ...\n"
      ".SH DESCRIPTION\n"
      "Analyzes memory snapshots of Ashlar and PyTorch, watches running processes, and lists "
      "devices\nand allocator options.\n"
      ".SH COMMANDS\n",
      escape(version));
  for (const CommandInfo& command : commands) text += command_text(command);
  text += ".SH ENVIRONMENT\n" + environment_text();
  text += fmt::format(".SH \"EXIT STATUS\"\n{}.\n", kExitCodes);
  return text;
}

}  // namespace ashlar
