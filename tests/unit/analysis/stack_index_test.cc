// SPDX-License-Identifier: Apache-2.0
//
// Tests the numbering of stacks by content, and boilerplate frames.
#include "analysis/stack_index.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

Frame frame(const char* name, const char* filename, int64_t line) {
  return {.name = name, .filename = filename, .line = line};
}

TEST(StackIndexTest, GivesEqualStacksOfTwoTablesOneNumber) {
  SnapshotTables left;
  left.frames = {{}, frame("forward", "model.py", 3), frame("main", "train.py", 9)};
  left.stacks = {{}, {.frames = {1, 2}}, {.frames = {2}}};
  SnapshotTables right;
  right.frames = {{}, frame("main", "train.py", 9), frame("forward", "model.py", 3)};
  right.stacks = {{}, {.frames = {2, 1}}, {.frames = {1, 2}}};
  StackIndex index;
  const std::vector<uint32_t> of_left = index.add(left);
  const std::vector<uint32_t> of_right = index.add(right);
  EXPECT_EQ(of_left[0], StackIndex::kNoStack);
  EXPECT_EQ(of_left[1], of_right[1]);
  EXPECT_NE(of_left[2], of_right[2]) << "the order of frames matters";
  EXPECT_EQ(index.frames(of_left[1])[0]->name, "forward");
}

TEST(StackIndexTest, DistinguishesLines) {
  SnapshotTables tables;
  tables.frames = {{}, frame("f", "a.py", 1), frame("f", "a.py", 2)};
  tables.stacks = {{}, {.frames = {1}}, {.frames = {2}}};
  StackIndex index;
  const std::vector<uint32_t> numbers = index.add(tables);
  EXPECT_NE(numbers[1], numbers[2]);
}

TEST(StackIndexTest, DropsInterpreterFrames) {
  SnapshotTables tables;
  tables.frames = {{},
                   frame("_PyEval_EvalFrameDefault", "x", 1),
                   frame("f", "a.py", 1),
                   frame("call", "Objects/call.c", 1)};
  tables.stacks = {{}, {.frames = {1, 2, 3}}, {.frames = {2}}};
  StackIndex index;
  const std::vector<uint32_t> numbers = index.add(tables);
  EXPECT_EQ(numbers[1], numbers[2]);
  EXPECT_EQ(index.frames(numbers[1]).size(), 1U);
}

TEST(StackIndexTest, KeepsFramesOfAStackOfBoilerplateOnly) {
  SnapshotTables tables;
  tables.frames = {{}, frame("_start", "", 0)};
  tables.stacks = {{}, {.frames = {1}}};
  StackIndex index;
  const std::vector<uint32_t> numbers = index.add(tables);
  ASSERT_NE(numbers[1], StackIndex::kNoStack);
  EXPECT_EQ(index.frames(numbers[1])[0]->name, "_start");
}

TEST(StackIndexTest, DropsTheSameFramesAsPyTorch) {
  for (const char* name :
       {"torch::unwind::unwind()", "CapturedTraceback::gather(bool)", "gather_with_cpp", "_start",
        "__libc_start_main_impl", "PyEval_EvalCode", "PyObject_Call", "_PyFunction_Vectorcall"}) {
    EXPECT_TRUE(is_boilerplate(frame(name, "", 0))) << name;
  }
  for (const char* file :
       {"aten/src/ATen/core/boxing/impl.h", "build/RegisterCUDA.cpp", "ATen/RedispatchFunctions.h",
        "Python/pythonrun.c", "Modules/main.c", "Objects/call.c", "Objects/methodobject.c",
        "internal/pycore_ceval.h", "Python/ceval.c", "cpython/abstract.h"}) {
    EXPECT_TRUE(is_boilerplate(frame("f", file, 0))) << file;
  }
  EXPECT_FALSE(is_boilerplate(frame("forward", "torch/nn/modules/module.py", 1)));
}

TEST(StackIndexTest, TreatsInvalidPositionsAsNoStack) {
  SnapshotTables tables;
  tables.stacks = {{}, {.frames = {77}}};
  StackIndex index;
  const std::vector<uint32_t> numbers = index.add(tables);
  EXPECT_EQ(numbers[1], StackIndex::kNoStack);
  EXPECT_EQ(stack_number(numbers, StackId(99)), StackIndex::kNoStack);
}

}  // namespace
}  // namespace ashlar
