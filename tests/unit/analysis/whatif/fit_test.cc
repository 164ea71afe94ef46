// SPDX-License-Identifier: Apache-2.0
//
// Searches for edits with which a program of two blocks fits. Its peaks are computed in
// what_if_test.cc; here, sizes are larger by a factor, so that the engine's rounding is small.
#include "analysis/whatif/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/analysis/whatif/block_program.h"

namespace ashlar {
namespace {

// The recorded run requests at least 56 MB: the extra input (8), the first block's saved activation
// and result (20), the second block's temporary (12) and saved activation (16). Recomputing the
// blocks lowers that to 42.5 MB, moving their activations to the host to 40.5 MB.
constexpr size_t kFactor = 4000;
constexpr size_t kMiB = size_t{1} << 20;

DeviceRecording large_iterations() {
  BlockProgram program;
  for (int i = 0; i < 3; ++i) program.iteration(kFactor);
  return program.recording();
}

FitOptions fit_options(const DeviceRecording& recording, size_t limit_bytes) {
  FitOptions options;
  options.limit_bytes = limit_bytes;
  options.recorded.device = recording.device();
  options.recorded.recorded = options.recorded.allocator = recording.options();
  options.recorded.capacity_bytes = size_t{1} << 30U;
  return options;
}

FitResult fit(size_t limit_bytes) {
  const DeviceRecording recording = large_iterations();
  return find_fit(recording, fit_options(recording, limit_bytes)).value();
}

TEST(FitTest, NeedsNoChangeIfTheRecordedRunFits) {
  const FitResult result = fit(200 * kMiB);
  EXPECT_TRUE(result.fits_as_recorded);
  EXPECT_TRUE(result.proposals.empty());
  EXPECT_FALSE(result.closest);
}

TEST(FitTest, ProposesToRecomputeTheBlockThatSavesMost) {
  const FitResult result = fit(52 * kMiB);
  ASSERT_EQ(result.proposals.size(), 1U);
  const FitProposal& proposal = result.proposals[0];
  ASSERT_EQ(proposal.edits.size(), 1U);
  EXPECT_EQ(proposal.edits[0].edit.text, "--recompute model.py:21-23");
  ASSERT_EQ(proposal.edits[0].function->callers.size(), 1U);
  EXPECT_EQ(proposal.edits[0].function->callers[0].line, 40);
  EXPECT_LE(proposal.prediction.after.reserved.bytes, 52 * kMiB);
  EXPECT_EQ(proposal.prediction.after.oom_count, 0U);
  EXPECT_EQ(proposal.prediction.edits[0].effect.recomputed_bytes_per_iteration, 2 * 7000 * kFactor);
}

TEST(FitTest, ReportsTheClosestEditsIfNothingFits) {
  const FitResult result = fit(20 * kMiB);
  EXPECT_TRUE(result.proposals.empty());
  ASSERT_TRUE(result.closest);
  EXPECT_FALSE(result.closest->edits.empty());
  EXPECT_GT(result.closest->prediction.after.requested.bytes, 20 * kMiB);
  EXPECT_LT(result.closest->prediction.after.requested.bytes,
            result.closest->prediction.before.requested.bytes);
}

TEST(FitTest, ProposesSetToNoneBeforeRecomputation) {
  BlockProgram program;
  program.keep_gradients();
  program.set_extra_bytes(1);
  for (int i = 0; i < 3; ++i) program.iteration();
  const DeviceRecording recording = program.recording();
  // No device is small enough for this program, whose edits are compared by requested bytes.
  const FitResult result = find_fit(recording, fit_options(recording, 1)).value();
  ASSERT_TRUE(result.closest);
  ASSERT_FALSE(result.closest->edits.empty());
  EXPECT_EQ(result.closest->edits[0].edit.text, "--set-to-none");
}

TEST(FitTest, DoesNotProposeTheFunctionThatCallsBackward) {
  const DeviceRecording recording = large_iterations();
  const NameSources sources;
  const RunEditor editor(recording, sources);
  const CandidateFunctions functions(recording, editor, sources);
  std::vector<std::string> selectors;
  for (const CandidateFunction& each : functions.all()) selectors.push_back(each.selector);
  EXPECT_THAT(selectors, testing::UnorderedElementsAre("model.py:21-23", "model.py:40-40"));
}

TEST(FitTest, DoesNotCombineFunctionsThatCallEachOther) {
  const FitResult result = fit(20 * kMiB);
  ASSERT_TRUE(result.closest);
  size_t function_count = 0;
  for (const FitEdit& each : result.closest->edits) function_count += each.function ? 1 : 0;
  EXPECT_EQ(function_count, 1U);
}

TEST(FitTest, FunctionsThatCallThemselvesAreNoCandidates) {
  TrainingProgram program;
  const uint32_t stack = program.stack(11, {{"walk", BlockProgram::kModel, 7},
                                            {"walk", BlockProgram::kModel, 7},
                                            {"forward", BlockProgram::kModel, 3}});
  program.set_up_model();
  for (int i = 0; i < 3; ++i) {
    program.free(program.alloc(1000, stack), 1000, program.autograd);
    program.iteration();
  }
  const DeviceRecording recording = {Recording::create("walk", program.trace.snapshot()),
                                     kTraceDevice};
  const NameSources sources;
  const RunEditor editor(recording, sources);
  const CandidateFunctions functions(recording, editor, sources);
  ASSERT_EQ(functions.all().size(), 1U);
  EXPECT_EQ(functions.all()[0].name, "forward");
}

TEST(FitTest, StopsIfItIsCancelled) {
  const DeviceRecording recording = large_iterations();
  FitOptions options = fit_options(recording, 52 * kMiB);
  options.keep_going = [] { return false; };
  EXPECT_TRUE(find_fit(recording, options).status().is(StatusKind::kTimeout));
}

TEST(FitTest, StopsAfterTheMaximumOfOperations) {
  const DeviceRecording recording = large_iterations();
  FitOptions options = fit_options(recording, 52 * kMiB);
  options.max_operations = 1;
  const FitResult result = find_fit(recording, options).value();
  EXPECT_FALSE(result.is_complete);
  EXPECT_TRUE(result.proposals.empty());
}

TEST(FitTest, ReportsProgress) {
  const DeviceRecording recording = large_iterations();
  FitOptions options = fit_options(recording, 52 * kMiB);
  double last = 0;
  options.progress = [&last](double share) {
    EXPECT_GE(share, last);
    EXPECT_LE(share, 1);
    last = share;
  };
  ASSERT_TRUE(find_fit(recording, options).ok());
  EXPECT_GT(last, 0);
}

}  // namespace
}  // namespace ashlar
