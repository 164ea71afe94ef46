// SPDX-License-Identifier: Apache-2.0
//
// Tests the detection of the terminal's encoding.
#include "cli/terminal/terminal.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ashlar
