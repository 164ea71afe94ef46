// SPDX-License-Identifier: Apache-2.0
//
// Tests the groups of allocations, and the explanation of the highest iteration.
#include "analysis/training/grouping.h"

#include <gtest/gtest.h>

#include "analysis/training/highest_iteration.h"
#include "unit/analysis/training/training_program.h"

namespace ashlar {
namespace {

DeviceRecording recording_of(TrainingProgram& program) {
  return {Recording::create("test", std::move(program.trace.snapshot())), kTraceDevice};
}

std::vector<uint32_t> all_of(const DeviceRecording& recording) {
  std::vector<uint32_t> all(recording.allocations().all.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

using Groups = std::vector<AllocationGroup>;

TEST(GroupingTest, SumsByPhaseAndIteration) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 2; ++i) program.iteration();
  const DeviceRecording recording = recording_of(program);
  EXPECT_EQ(group_allocations(recording, all_of(recording), GroupBy::kPhase),
            (Groups{{"backward", 12'008, 6},
                    {"forward", 11'528, 6},
                    {"optimizer", 3000, 3},
                    {"other", 1000, 1}}));
  EXPECT_EQ(group_allocations(recording, all_of(recording), GroupBy::kIteration),
            (Groups{{"iteration 1", 13'768, 8},
                    {"iteration 2", 12'768, 7},
                    {"outside iterations", 1000, 1}}));
}

TEST(GroupingTest, AnnotationIsInnermostRangeOrMetadata) {
  TrainingProgram program;
  program.annotate("outer", "START");
  program.alloc(1, program.input);
  program.annotate("inner", "START");
  program.alloc(20, program.input);
  program.annotate("inner", "END");
  program.alloc(300, program.input);
  program.annotate("outer", "END");
  program.alloc(4000, program.input);
  program.alloc(50'000, program.input);
  Snapshot& snapshot = program.trace.snapshot();
  snapshot.tables.strings.push_back("epoch 3");
  snapshot.device_traces[0].back().user_metadata =
      StringId(static_cast<uint32_t>(snapshot.tables.strings.size() - 1));
  const DeviceRecording recording = recording_of(program);
  EXPECT_EQ(group_allocations(recording, all_of(recording), GroupBy::kAnnotation),
            (Groups{{"epoch 3", 50'000, 1},
                    {"no annotation", 4000, 1},
                    {"outer", 301, 2},
                    {"inner", 20, 1}}));
}

TEST(GroupingTest, ParsesNamesOfCriteria) {
  EXPECT_EQ(parse_group_by("phase"), GroupBy::kPhase);
  EXPECT_EQ(parse_group_by("stack"), std::nullopt);
}

TEST(HighestIterationTest, NamesLargestDifference) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 5; ++i) {
    const uint64_t large = i == 3 ? program.alloc(70'000, program.input) : 0;
    program.iteration();
    if (i == 3) program.free(large, 70'000, program.after);
  }
  const DeviceRecording recording = recording_of(program);
  const std::optional<HighestIteration> highest = find_highest_iteration(recording);
  ASSERT_TRUE(highest.has_value());
  EXPECT_EQ(highest->iteration, 3U);
  EXPECT_EQ(highest->phase, Phase::kBackward);
  EXPECT_EQ(highest->difference_bytes, 70'000U);
  EXPECT_EQ(highest->category, Category::kInputs);
  EXPECT_EQ(highest->category_difference_bytes, 70'000U);
  ASSERT_TRUE(highest->stack.has_value());
  EXPECT_EQ(recording.recording().stacks().frames(*highest->stack)[0]->line, 10);
}

TEST(HighestIterationTest, IsUnsetWithoutIterations) {
  TrainingProgram program;
  program.alloc(1, program.input);
  EXPECT_FALSE(find_highest_iteration(recording_of(program)).has_value());
}

}  // namespace
}  // namespace ashlar
