// SPDX-License-Identifier: Apache-2.0
//
// Tests of matching Accept fields against media types.
#include "http/accept.h"

#include <gtest/gtest.h>

namespace ashlar::http {
namespace {

constexpr MediaType kText{.name = "text/plain", .version = "0.0.4"};

int thousandths(std::string_view accept) { return preference_for(accept, kText).thousandths; }

TEST(AcceptTest, EmptyFieldAcceptsEverything) {
  EXPECT_EQ(thousandths(""), 1000);
  EXPECT_EQ(thousandths(" \t"), 1000);
  EXPECT_FALSE(preference_for("", kText).is_named);
}

TEST(AcceptTest, MatchesNamesAndWildcards) {
  EXPECT_EQ(thousandths("text/plain"), 1000);
  EXPECT_EQ(thousandths("TEXT/Plain;Q=0.5"), 500);
  EXPECT_EQ(thousandths("text/html, text/*;q=0.25"), 250);
  EXPECT_EQ(thousandths("image/png,*/*;q=0.125"), 125);
  EXPECT_EQ(thousandths("text/html"), 0);
  EXPECT_EQ(thousandths("application/*"), 0);
  EXPECT_EQ(thousandths("te/*"), 0);
  EXPECT_TRUE(preference_for("text/plain;q=0.1", kText).is_named);
  EXPECT_FALSE(preference_for("text/*;version=0.0.4", kText).is_named);
}

TEST(AcceptTest, MostSpecificRangeDecides) {
  EXPECT_EQ(thousandths("text/plain;q=0.1, */*"), 100);
  EXPECT_EQ(thousandths("*/*, text/*;q=0.3, text/plain;q=0"), 0);
  EXPECT_EQ(thousandths("text/plain;q=0.9, text/plain;version=0.0.4;q=0.2"), 200);
}

TEST(AcceptTest, VersionsMustBeEqual) {
  EXPECT_EQ(thousandths("text/plain;version=0.0.4;q=0.3"), 300);
  EXPECT_EQ(thousandths("text/plain; version=\"0.0.4\"; charset=utf-8"), 1000);
  EXPECT_EQ(thousandths("text/plain;version=1.0.0;escaping=allow-utf-8"), 0);
  EXPECT_EQ(thousandths("text/plain;version=1.0.0, */*;q=0.1"), 100);
}

TEST(AcceptTest, QuotedTextContainsNoSeparators) {
  EXPECT_EQ(thousandths("text/html;a=\", text/plain\""), 0);
  EXPECT_EQ(thousandths("text/plain;a=\"\\\";q=0\";q=0.5"), 500);
  EXPECT_EQ(thousandths("text/html;a=\"unterminated, text/plain"), 0);
}

TEST(AcceptTest, MalformedRangesMatchNothing) {
  for (const char* q : {"", "2", "1.001", "0.1234", "-1", ".5", "0,5", "0.5x", "1e0", "nan"}) {
    EXPECT_EQ(thousandths(std::string("text/plain;q=") + q), 0) << q;
  }
  for (const char* accept : {",", ";", ";;,,", "text", "/", "text/", "*", "plain/*", "\\", "\""}) {
    EXPECT_EQ(thousandths(accept), 0) << accept;
  }
  EXPECT_EQ(thousandths("text/plain;q=1.000"), 1000);
  EXPECT_EQ(thousandths("text/plain;q=0.001;;"), 1);
}

}  // namespace
}  // namespace ashlar::http
