// SPDX-License-Identifier: Apache-2.0
//
// Tests that paths in JSON stacks are not shortened.
#include "analysis/report_json/stack_json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ashlar {
namespace {

TEST(StackJsonTest, KeepsFullPaths) {
  const Frame frame = {.name = "f", .filename = "/srv/llm/model.py", .line = 3};
  EXPECT_EQ(stack_json({&frame}).dump(),
            R"([{"name":"f","filename":"/srv/llm/model.py","line":3}])");
}

}  // namespace
}  // namespace ashlar
