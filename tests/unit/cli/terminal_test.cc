// SPDX-License-Identifier: Apache-2.0
//
// Which characters a terminal shows.
#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

bool is_utf8(Environment::Values values) {
  return terminal_in(Environment(std::move(values))).is_utf8;
}

TEST(TerminalTest, TheFirstVariableThatIsSetNamesTheCharacters) {
  EXPECT_FALSE(is_utf8({}));
  EXPECT_TRUE(is_utf8({{"LANG", "en_US.UTF-8"}}));
  EXPECT_TRUE(is_utf8({{"LANG", "C.utf8"}}));
  EXPECT_TRUE(is_utf8({{"LC_CTYPE", "de_DE.UTF-8"}, {"LANG", "C"}}));
  EXPECT_FALSE(is_utf8({{"LC_ALL", "C"}, {"LANG", "en_US.UTF-8"}}));
  EXPECT_FALSE(is_utf8({{"LANG", "en_US.ISO-8859-1"}}));
  EXPECT_TRUE(is_utf8({{"LC_ALL", ""}, {"LANG", "en_US.UTF-8"}})) << "an empty one is unset";
}

}  // namespace
}  // namespace ashlar
