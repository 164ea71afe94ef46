// SPDX-License-Identifier: Apache-2.0
//
// Tests the detection of the terminal's encoding, and sanitizing of output.
#include "cli/terminal/terminal.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/terminal/json_output.h"
#include "cli/terminal/style.h"

namespace ashlar {
namespace {

bool is_utf8(Environment::Values values) {
  return detect_terminal(Environment(std::move(values))).is_utf8;
}

TEST(TerminalTest, FirstSetLocaleVariableDeterminesEncoding) {
  EXPECT_FALSE(is_utf8({}));
  EXPECT_TRUE(is_utf8({{"LANG", "en_US.UTF-8"}}));
  EXPECT_TRUE(is_utf8({{"LANG", "C.utf8"}}));
  EXPECT_TRUE(is_utf8({{"LC_CTYPE", "de_DE.UTF-8"}, {"LANG", "C"}}));
  EXPECT_FALSE(is_utf8({{"LC_ALL", "C"}, {"LANG", "en_US.UTF-8"}}));
  EXPECT_FALSE(is_utf8({{"LANG", "en_US.ISO-8859-1"}}));
  EXPECT_TRUE(is_utf8({{"LC_ALL", ""}, {"LANG", "en_US.UTF-8"}}))
      << "an empty variable counts as unset";
}

TEST(StyleTest, PassesOnlyItsOwnSequencesToTheTerminal) {
  const std::string styled = bold("a") + red("b") + green("c") + "\n\t×";
  EXPECT_EQ(safe_for_terminal(styled), styled);
  EXPECT_EQ(safe_for_terminal("\x1b[2Ja\x1b]0;title\x07"), "?[2Ja?]0;title?");
  EXPECT_EQ(safe_for_terminal("\x1b[31m\x1b"), "?[31m?") << "not a sequence of style.h";
  EXPECT_EQ(safe_for_terminal("a\u202eb\r\xff"), "a?b??");
}

TEST(JsonOutputTest, EscapesUnprintableCharacters) {
  const nlohmann::ordered_json value = {{"name", "a\u202e\x7f\U000e0041×"}};
  const std::string written = format_json(value);
  EXPECT_EQ(written, "{\n  \"name\": \"a\\u202e\\u007f\\udb40\\udc41×\"\n}\n");
  EXPECT_EQ(nlohmann::ordered_json::parse(written), value);
}

}  // namespace
}  // namespace ashlar
