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

TEST(StackJsonTest, HasTheShownAndAllFrames) {
  SnapshotTables tables;
  tables.frames = {
      {},
      {.name = "add", .filename = "/venv/site-packages/torch/functional.py", .line = 7},
      {.name = "train", .filename = "/srv/llm/train.py", .line = 3}};
  tables.stacks = {{}, {.frames = {1, 2}, .forward = {}}};
  StackIndex stacks;
  nlohmann::ordered_json json;
  put_stack(json, stacks, stacks.add(tables)[1]);
  ASSERT_EQ(json["stack"].size(), 1U);
  EXPECT_EQ(json["stack"][0]["name"], "train");
  ASSERT_EQ(json["full_stack"].size(), 2U);
  EXPECT_EQ(json["full_stack"][0]["name"], "add");
}

}  // namespace
}  // namespace ashlar
