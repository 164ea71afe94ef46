// SPDX-License-Identifier: Apache-2.0
//
// Tests the numbering of stacks by their shown frames.
#include "analysis/stack_index.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

Frame frame(const char* name, const char* filename, int64_t line) {
  return {.name = name, .filename = filename, .line = line};
}

const Frame kForward = frame("forward", "/srv/jobs/model.py", 3);
const Frame kMain = frame("main", "/srv/jobs/train.py", 9);
const Frame kModule = frame("_call_impl", "/venv/lib/python3.12/site-packages/torch/nn/m.py", 5);

// Returns the tables of a snapshot whose stacks consist of the given frames.
SnapshotTables tables_of(const std::vector<std::vector<Frame>>& stacks) {
  SnapshotTables tables;
  for (const std::vector<Frame>& frames : stacks) {
    Stack& stack = tables.stacks.emplace_back();
    for (const Frame& each : frames) {
      stack.frames.push_back(static_cast<uint32_t>(tables.frames.size()));
      tables.frames.push_back(each);
    }
  }
  return tables;
}

// Returns the names of the shown frames of the last stack of `tables`.
std::vector<std::string> shown(const SnapshotTables& tables,
                               StackDetail detail = StackDetail::kUserCode) {
  StackIndex index(detail);
  std::vector<std::string> names;
  for (const Frame* each : index.frames(index.add(tables).back())) names.push_back(each->name);
  return names;
}

using Names = std::vector<std::string>;

TEST(StackIndexTest, GivesEqualStacksOfTwoTablesOneNumber) {
  const SnapshotTables left = tables_of({{kForward, kMain}, {kMain}});
  const SnapshotTables right = tables_of({{kMain, kForward}, {kForward, kMain}});
  StackIndex index;
  const std::vector<uint32_t> of_left = index.add(left);
  const std::vector<uint32_t> of_right = index.add(right);
  EXPECT_EQ(of_left[0], StackIndex::kNoStack);
  EXPECT_EQ(of_left[1], of_right[2]);
  EXPECT_NE(of_left[1], of_right[1]) << "the order of frames matters";
  EXPECT_EQ(index.frames(of_left[1])[0]->name, "forward");
}

TEST(StackIndexTest, DistinguishesLines) {
  const SnapshotTables tables = tables_of({{frame("f", "a.py", 1)}, {frame("f", "a.py", 2)}});
  StackIndex index;
  const std::vector<uint32_t> numbers = index.add(tables);
  EXPECT_NE(numbers[1], numbers[2]);
}

TEST(StackIndexTest, ShowsOnlyUserCode) {
  const SnapshotTables tables = tables_of(
      {{frame("at::native::add(at::Tensor const&)", "??", 0), kModule, kForward, kModule, kMain},
       {frame("at::native::mul(at::Tensor const&)", "??", 0), kForward, kMain}});
  StackIndex index;
  const std::vector<uint32_t> numbers = index.add(tables);
  EXPECT_EQ(numbers[1], numbers[2]) << "grouped by what is shown";
  EXPECT_EQ(shown(tables), (Names{"forward", "main"}));
  EXPECT_EQ(index.full_frames(numbers[1]).size(), 5U) << "the first stack with the number";
}

TEST(StackIndexTest, ShowsAllFramesInFullDetail) {
  const SnapshotTables tables =
      tables_of({{frame("_PyEval_EvalFrameDefault", "??", 0), kModule, kForward}});
  EXPECT_EQ(shown(tables, StackDetail::kFull),
            (Names{"_PyEval_EvalFrameDefault", "_call_impl", "forward"}));
}

TEST(StackIndexTest, ShowsLibrariesWithoutUserCode) {
  const SnapshotTables tables =
      tables_of({{kMain},
                 {frame("at::native::add(at::Tensor const&)", "??", 0), kModule,
                  frame("run", "/usr/lib/python3.12/threading.py", 8)}});
  EXPECT_EQ(shown(tables), (Names{"_call_impl"}));
}

TEST(StackIndexTest, ShowsOperatorsOfNativeStacks) {
  const SnapshotTables tables = tables_of(
      {{kMain},
       {frame("c10::cuda::CUDACachingAllocator::Native::malloc(long)", "??", 0),
        frame("at::native::sort(at::Tensor const&)", "??", 0), frame("start_thread", "??", 0)}});
  EXPECT_EQ(shown(tables), (Names{"at::native::sort(at::Tensor const&)"}));
}

TEST(StackIndexTest, LabelsTheBackwardPassWithItsNode) {
  const char* const apply = "torch::autograd::generated::MulBackward0::apply(std::vector<int>&&)";
  const SnapshotTables tables =
      tables_of({{kMain},
                 {frame("at::native::mul(at::Tensor const&)", "??", 0), frame(apply, "??", 0),
                  frame("torch::autograd::Engine::thread_main(int)", "??", 0)}});
  EXPECT_EQ(shown(tables), (Names{"backward pass (autograd thread): MulBackward0"}));
}

TEST(StackIndexTest, LabelsPythonFramesOfBackwardPass) {
  const SnapshotTables tables =
      tables_of({{kMain}, {kModule, frame("torch::autograd::Engine::thread_main(int)", "??", 0)}});
  EXPECT_EQ(shown(tables), (Names{"backward pass (autograd thread)", "_call_impl"}));
}

TEST(StackIndexTest, LabelsEmptyStacksOfPythonRecordings) {
  EXPECT_EQ(shown(tables_of({{kMain}, {}})),
            (Names{"no Python frame (usually the backward pass)"}));
  EXPECT_EQ(shown(tables_of({{}})), Names{}) << "no stack of the snapshot has frames";
}

TEST(StackIndexTest, GivesEqualLabelsOneNumber) {
  const SnapshotTables tables = tables_of({{kMain}, {}});
  StackIndex index;
  const uint32_t first = index.add(tables)[2];
  EXPECT_EQ(index.add(tables)[2], first);
}

TEST(StackIndexTest, ShowsAllFramesIfNothingElseRemains) {
  EXPECT_EQ(shown(tables_of({{kMain}, {frame("_start", "", 0)}})), (Names{"_start"}));
}

TEST(StackIndexTest, LabelsAllocationsBeforeTheRecording) {
  const SnapshotTables tables = tables_of({{kMain}});
  StackIndex index;
  const std::vector<uint32_t> numbers = index.add(tables);
  Allocation allocation;
  EXPECT_EQ(stack_number(numbers, allocation), StackIndex::kBeforeRecording);
  EXPECT_EQ(index.frames(StackIndex::kBeforeRecording)[0]->name, "allocated before the recording");
  allocation.stack = StackId(1);
  EXPECT_EQ(stack_number(numbers, allocation), numbers[1]);
  allocation = {};
  allocation.alloc_entry = 7;
  EXPECT_EQ(stack_number(numbers, allocation), StackIndex::kNoStack);
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
