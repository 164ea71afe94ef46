// SPDX-License-Identifier: Apache-2.0
//
// Tests the parsing of edits, and the outline of Python source files.
#include "analysis/whatif/edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "analysis/whatif/python_outline.h"

namespace ashlar {
namespace {

using testing::HasSubstr;

std::string message_of(EditKind kind, std::string_view value) {
  const Result<Edit> edit = parse_edit(kind, value);
  return edit.ok() ? "no failure" : edit.status().message();
}

TEST(EditTest, TermsAreLinesFunctionsCategoriesAndExpressions) {
  const Selector selector =
      parse_edit(EditKind::kDrop, "class:optimizer_state,a/m.py:87,m.py:5-9,m.py:B.f,frame:x{1,2}")
          .value()
          .selector;
  ASSERT_EQ(selector.terms.size(), 5U);
  EXPECT_EQ(selector.terms[0].category, Category::kOptimizerState);
  EXPECT_EQ(selector.terms[1].kind, SelectorTerm::Kind::kLine);
  EXPECT_EQ(selector.terms[1].file, "a/m.py");
  EXPECT_EQ(selector.terms[1].first_line, 87);
  EXPECT_EQ(selector.terms[2].kind, SelectorTerm::Kind::kLines);
  EXPECT_EQ(selector.terms[2].last_line, 9);
  EXPECT_EQ(selector.terms[3].name, "B.f");
  EXPECT_EQ(selector.terms[4].name, "x{1,2}");
}

TEST(EditTest, RejectsOtherForms) {
  for (const char* bad : {"", "model.py", "model.py:", ":87", "model.py:9-5", "model.py:0",
                          "model.py:8x", "model.py:87,", "frame:"}) {
    EXPECT_THAT(message_of(EditKind::kDrop, bad), HasSubstr("--drop: ")) << bad;
  }
  EXPECT_THAT(message_of(EditKind::kRecompute, "model.py:87"), HasSubstr("one function"));
  EXPECT_THAT(message_of(EditKind::kDrop, "class:optimiser_state"),
              HasSubstr("did you mean class:optimizer_state?"));
  for (const char* bad : {"0", "-1", "nan", "inf", "2000", "half", "0.5x"}) {
    EXPECT_THAT(message_of(EditKind::kBatch, bad), HasSubstr("factor")) << bad;
  }
  EXPECT_THAT(message_of(EditKind::kScale, "class:inputs"), HasSubstr("GROUP=FACTOR"));
}

TEST(EditTest, MomentsAreEndsLinesAndSteps) {
  for (const char* good : {"step", "end:m.py:f", "end:m.py:3-9", "leave:m.py:7", "next:m.py:7"}) {
    Edit edit = parse_edit(EditKind::kFree, "m.py:7").value();
    EXPECT_TRUE(parse_at(good, edit).ok()) << good;
  }
  for (const char* bad : {"", "stop", "end", "end:m.py:7", "leave:m.py:f", "next:"}) {
    Edit edit = parse_edit(EditKind::kFree, "m.py:7").value();
    EXPECT_FALSE(parse_at(bad, edit).ok()) << bad;
  }
}

std::vector<PythonFunction> functions_in(const char* source) {
  std::vector<std::string> lines;
  std::istringstream text(source);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return python_functions(lines);
}

TEST(PythonOutlineTest, FunctionsHaveQualifiedNamesAndLines) {
  const std::vector<PythonFunction> found = functions_in(R"(class Block(nn.Module):
    def __init__(self, width):
        self.width = width

    # A comment belongs to no function.
    @decorator(
        "def not_this(): pass")
    async def forward(self, x,
                      y=(1,
2)):
        """def nor_this():

unindented text of a string
        """
        def inner():
            return 1
        return inner()


def train(): pass
)");
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].qualified_name, "Block.__init__");
  EXPECT_EQ(found[0].first_line, 2);
  EXPECT_EQ(found[0].last_line, 3);
  EXPECT_EQ(found[1].qualified_name, "Block.forward");
  EXPECT_EQ(found[1].first_line, 8);
  EXPECT_EQ(found[1].last_line, 17);
  EXPECT_EQ(found[2].qualified_name, "Block.forward.inner");
  EXPECT_EQ(found[2].last_line, 16);
  EXPECT_EQ(found[3].qualified_name, "train");
  EXPECT_EQ(found[3].first_line, 20);
}

TEST(PythonOutlineTest, StringsContinueAfterABackslash) {
  const std::vector<PythonFunction> found =
      functions_in("def f():\n    x = 'a \\\ndef g(): b'\n    return x\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].last_line, 4);
}

TEST(PythonOutlineTest, AcceptsFilesThatAreNotPython) {
  EXPECT_TRUE(functions_in("def\nclass :\n\"\"\"\ndef f():\n\\").empty());
}

}  // namespace
}  // namespace ashlar
