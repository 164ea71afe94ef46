// SPDX-License-Identifier: Apache-2.0
//
// Tests that stacks, including stacks from untrusted files, are formatted as text.
#include "cli/terminal/stack_text.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(StackTextTest, ShortensPaths) {
  EXPECT_EQ(short_path("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/conv.py"),
            "torch/nn/modules/conv.py");
  EXPECT_EQ(short_path("/usr/lib/python3/dist-packages/numpy/core.py"), "numpy/core.py");
  EXPECT_EQ(short_path("/srv/jobs/llm/train.py"), "llm/train.py");
  EXPECT_EQ(short_path("llm/train.py"), "llm/train.py");
  EXPECT_EQ(short_path("train.py"), "train.py");
  EXPECT_EQ(short_path("C:\\jobs\\llm\\train.py"), "llm\\train.py");
  EXPECT_EQ(short_path("C:\\venv\\lib\\site-packages\\torch\\storage.py"), "torch\\storage.py");
  EXPECT_EQ(short_path("/train.py"), "/train.py");
  EXPECT_EQ(short_path(""), "");
}

TEST(StackTextTest, ShowsInnermostFrames) {
  const Frame inner = {.name = "forward", .filename = "/srv/llm/model.py", .line = 3};
  const Frame middle = {.name = "train", .filename = "train.py", .line = 9};
  const Frame outer = {.name = "<module>", .filename = "train.py", .line = 20};
  EXPECT_EQ(stack_lines({&inner, &middle, &outer}, 2),
            (std::vector<std::string>{"forward  llm/model.py:3", "train  train.py:9"}));
}

TEST(StackTextTest, OmitsUnknownFilesAndLines) {
  const Frame label = {.name = "backward pass (autograd thread)"};
  const Frame native = {.name = "at::Tensor at::native::add<float>(long)", .filename = "??"};
  const Frame no_line = {.name = "init", .filename = "/srv/llm/fake.py", .line = 0};
  EXPECT_EQ(stack_lines({&label, &native, &no_line}, 3),
            (std::vector<std::string>{"backward pass (autograd thread)", "at::native::add<float>",
                                      "init  llm/fake.py"}));
}

TEST(StackTextTest, StatesThatNoStackWasRecorded) {
  EXPECT_EQ(stack_lines({}, 3), (std::vector<std::string>{"(no stack was recorded)"}));
}

TEST(StackTextTest, CutsLongNamesBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 100; ++i) name += "é";
  const Frame frame = {.name = name, .filename = "a.cc", .line = 1};
  const std::string line = stack_lines({&frame}, 1)[0];
  EXPECT_EQ(line, name.substr(0, 120) + "...  a.cc:1");
}

TEST(StackTextTest, ReplacesControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\tc\x7f"), "a?[2Jb??c?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "?2J")
      << "two-byte control character";
  EXPECT_EQ(printable("\xff\xfe"), "??");
  EXPECT_EQ(printable("\xed\xa0\x80"), "?") << "unpaired surrogate";
  EXPECT_EQ(printable("größer ✓"), "größer ✓");
  EXPECT_EQ(printable("a\u202eb\u200bc\u2066d\ufeff"), "a?b?c?d?") << "invisible characters";
}

}  // namespace
}  // namespace ashlar
