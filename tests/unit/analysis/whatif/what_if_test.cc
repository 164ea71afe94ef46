// SPDX-License-Identifier: Apache-2.0
//
// Compares predicted peaks with peaks computed by hand.
//
// The file is long because the tests of all edits use the same program and its peaks.
#include "analysis/whatif/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/analysis/whatif/block_program.h"

namespace ashlar {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Live during the forward pass of the second and later iterations, besides the blocks: parameters,
// optimizer state, tokens and the extra input.
constexpr size_t kOutsideBlocks = 1000 + 1000 + 64 + 2000;
// The peak is in the second block's forward pass: the first block's saved activation and result
// (5000), and the second block's temporary (3000) and saved activation (4000).
constexpr size_t kRecordedPeak = kOutsideBlocks + 5000 + 3000 + 4000;

DeviceRecording three_iterations() {
  BlockProgram program;
  for (int i = 0; i < 3; ++i) program.iteration();
  return program.recording();
}

Edit edit(EditKind kind, std::string_view value = "", std::string_view at = "") {
  Edit parsed = parse_edit(kind, value).value();
  if (!at.empty()) {
    EXPECT_TRUE(parse_at(at, parsed).ok());
  }
  return parsed;
}

Result<WhatIfResult> predict(const DeviceRecording& recording, const std::vector<Edit>& edits) {
  WhatIfOptions options;
  options.recorded.device = recording.device();
  options.recorded.recorded = options.recorded.allocator = recording.options();
  options.recorded.capacity_bytes = size_t{1} << 30U;
  options.edited = options.recorded;
  return what_if(recording, edits, options);
}

std::string failure_of(const std::vector<Edit>& edits) {
  const DeviceRecording recording = three_iterations();
  const Result<WhatIfResult> result = predict(recording, edits);
  return result.ok() ? "no failure" : result.status().message();
}

TEST(WhatIfTest, BeforeIsTheRecordedRun) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result = predict(recording, {}).value();
  EXPECT_EQ(result.before.requested.bytes, kRecordedPeak);
  EXPECT_EQ(result.after.requested.bytes, kRecordedPeak);
  EXPECT_EQ(result.after.allocated.bytes, result.before.allocated.bytes);
  EXPECT_EQ(result.after.requested.entry, result.before.requested.entry);
}

TEST(WhatIfTest, RecomputationRepeatsTheForwardPassOfABlock) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kRecompute, "model.py:20-25")}).value();
  // At the peak, the backward pass recomputes the second block. The first block's result, the seed,
  // the gradient of the loss, and the repeated temporary and saved activation are live.
  EXPECT_EQ(result.after.requested.bytes, kOutsideBlocks + 1000 + 4 + 500 + 3000 + 4000);
  const EditEffect& effect = result.edits[0].effect;
  EXPECT_EQ(effect.found_invocations, 6U);
  EXPECT_EQ(effect.invocation_count, 6U);
  EXPECT_EQ(effect.allocation_count, 6U);
  EXPECT_EQ(effect.recomputed_bytes, 6U * 7000U);
}

TEST(WhatIfTest, RecomputationNeedsNoStacksOfFrees) {
  BlockProgram program;
  for (int i = 0; i < 3; ++i) program.iteration();
  program.record_allocation_stacks_only();
  const DeviceRecording recording = program.recording();
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kRecompute, "model.py:20-25")}).value();
  EXPECT_EQ(result.after.requested.bytes, kOutsideBlocks + 1000 + 4 + 500 + 3000 + 4000);
  EXPECT_EQ(result.edits[0].effect.recomputed_bytes, 6U * 7000U);
}

TEST(WhatIfTest, OffloadingMovesWhatTheBackwardPassFrees) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kOffload, "model.py:20-25")}).value();
  // In the second block's forward pass, only the first block's result is left.
  EXPECT_EQ(result.after.requested.bytes, kOutsideBlocks + 1000 + 3000 + 4000);
  // The saved allocation of both blocks, and the first one's result.
  EXPECT_EQ(result.edits[0].effect.offloaded_bytes, 3U * (4000U + 4000U + 1000U));
}

TEST(WhatIfTest, OffloadingMovesEachAllocationOnceIfPassesOverlap) {
  TrainingProgram program;
  program.set_up_model();
  const uint32_t save = program.stack(11, {{"forward", BlockProgram::kModel, 50}});
  const uint32_t end = program.stack(11, {{"forward", BlockProgram::kModel, 51}});
  for (int iteration = 0; iteration < 3; ++iteration) {
    uint64_t saved[4] = {};
    uint64_t results[4] = {};
    for (int i = 0; i < 4; ++i) {
      saved[i] = program.alloc(1000, save);
      results[i] = program.alloc(100, end);
    }
    program.gradient = program.alloc(1000, program.autograd);
    for (int i = 0; i < 4; ++i) {
      program.free(saved[i], 1000, program.autograd);
      program.free(results[i], 100, program.autograd);
    }
    program.optimizer_step();
  }
  const DeviceRecording recording = {Recording::create("overlap", program.trace.snapshot()),
                                     kTraceDevice};
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kOffload, "model.py:50-51")}).value();
  const EditEffect& effect = result.edits[0].effect;
  EXPECT_EQ(effect.found_invocations, 12U);
  EXPECT_EQ(effect.allocation_count, 24U);
  EXPECT_EQ(effect.offloaded_bytes, 3U * 4U * 1100U);
}

TEST(WhatIfTest, PricesAreMeansOfCompleteIterations) {
  BlockProgram program;
  for (int i = 0; i < 3; ++i) program.iteration();
  program.forward_and_backward();
  const DeviceRecording recording = program.recording();
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kRecompute, "model.py:20-25")}).value();
  EXPECT_EQ(result.iteration_count, 3U);
  EXPECT_GT(result.edits[0].effect.recomputed_bytes, 6U * 7000U);
  EXPECT_EQ(result.edits[0].effect.recomputed_bytes_per_iteration, 2U * 7000U);
}

TEST(WhatIfTest, DroppedAllocationsDoNotHappen) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kDrop, "class:optimizer_state")}).value();
  EXPECT_EQ(result.after.requested.bytes, kRecordedPeak - 1000);
  EXPECT_EQ(result.edits[0].effect.allocation_count, 1U);
}

TEST(WhatIfTest, OverlappingDropsCountOnce) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result = predict(recording, {edit(EditKind::kDrop, "class:optimizer_state"),
                                                  edit(EditKind::kDrop, "train.py:13")})
                                  .value();
  EXPECT_EQ(result.after.requested.bytes, kRecordedPeak - 1000);
  EXPECT_EQ(result.edits[1].effect.allocation_count, 3U);  // the temporaries of each step
}

TEST(WhatIfTest, RefusesDropOfDroppedAllocations) {
  const Edit drop = edit(EditKind::kDrop, "class:optimizer_state");
  EXPECT_THAT(failure_of({drop, drop}), HasSubstr("an earlier edit dropped"));
}

TEST(WhatIfTest, RefusesDropOfDroppedOlderAllocations) {
  TrainingProgram program;
  for (int i = 0; i < 3; ++i) program.iteration();
  for (uint64_t i = 1; i <= 2; ++i) program.trace.ends_with(i << 40U, 1000, kLive);
  const DeviceRecording recording = {Recording::create("older", program.trace.snapshot()),
                                     kTraceDevice};
  const Edit drop = edit(EditKind::kDrop, "class:parameters");
  EXPECT_TRUE(predict(recording, {drop}).ok());
  EXPECT_FALSE(predict(recording, {drop, drop}).ok());
}

TEST(WhatIfTest, DropsAndScalesFailedRequests) {
  BlockProgram program;
  for (int i = 0; i < 3; ++i) program.iteration();
  program.failed_iteration(1'000'000);
  const DeviceRecording recording = program.recording();
  const WhatIfResult scaled =
      predict(recording, {edit(EditKind::kScale, "model.py:22=0.5")}).value();
  EXPECT_EQ(scaled.after.requested.bytes, kOutsideBlocks + 3000 + 500'000);
  EXPECT_EQ(scaled.after.requested.entry, recording.trace().size() - 1);
  EXPECT_EQ(scaled.after_stacks.front().bytes, 500'000U);
  const WhatIfResult dropped = predict(recording, {edit(EditKind::kDrop, "model.py:22")}).value();
  EXPECT_EQ(dropped.after.requested.bytes, kOutsideBlocks + 1000 + 3000);
  EXPECT_EQ(dropped.edits[0].effect.allocation_count, 6U + 1U);
}

TEST(WhatIfTest, FailedRequestsHaveTheCategoryOfTheirStack) {
  BlockProgram program;
  for (int i = 0; i < 3; ++i) program.iteration();
  program.failed_iteration(1'000'000);
  const DeviceRecording recording = program.recording();
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kScale, "class:activations=0.5")}).value();
  EXPECT_EQ(result.after.requested.bytes, kOutsideBlocks + 1500 + 500'000);
}

TEST(WhatIfTest, BatchScalesFailedRequests) {
  BlockProgram program;
  for (const size_t factor : {2, 4, 6}) program.iteration(factor);
  program.failed_iteration(1'000'000);
  const DeviceRecording recording = program.recording();
  const WhatIfResult result = predict(recording, {edit(EditKind::kBatch, "0.5")}).value();
  EXPECT_EQ(result.after.requested.bytes, 2000 + (kOutsideBlocks - 2000 + 3000 + 1'000'000) / 2);
}

TEST(WhatIfTest, BatchIsRefusedIfFewBytesVary) {
  BlockProgram program;
  for (const size_t bytes : {2000, 2100, 2200}) {
    program.set_extra_bytes(bytes);
    program.iteration();
  }
  const DeviceRecording recording = program.recording();
  EXPECT_THAT(predict(recording, {edit(EditKind::kBatch, "0.5")}).status().message(),
              HasSubstr("% of the bytes of activations and inputs"));
}

TEST(WhatIfTest, ScalingIsRefusedIfSumsExceedTheRange) {
  TrainingProgram program;
  program.set_up_model();
  program.alloc(size_t{1} << 54U, program.input);
  const DeviceRecording recording = {Recording::create("huge", program.trace.snapshot()),
                                     kTraceDevice};
  EXPECT_THAT(predict(recording, {edit(EditKind::kScale, "train.py:10=1024")}).status().message(),
              HasSubstr("2^63"));
}

TEST(WhatIfTest, PeaksIncludeTheStateBeforeTheRecording) {
  TrainingProgram program;
  program.free(uint64_t{1} << 40U, 1'000'000, program.after);
  program.set_up_model();
  for (int i = 0; i < 3; ++i) program.iteration();
  const DeviceRecording recording = {Recording::create("older", program.trace.snapshot()),
                                     kTraceDevice};
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kDrop, "class:optimizer_state")}).value();
  EXPECT_EQ(result.after.requested.bytes, 1'000'000U);
  EXPECT_EQ(result.after.requested.entry, std::nullopt);
  ASSERT_FALSE(result.after_stacks.empty());
  EXPECT_EQ(result.after_stacks.front().bytes, 1'000'000U);
}

TEST(WhatIfTest, AllTermsOfASelectorMustMatch) {
  EXPECT_THAT(failure_of({edit(EditKind::kDrop, "class:optimizer_state,train.py:10")}),
              HasSubstr("matches no allocation"));
}

TEST(WhatIfTest, FreesAtTheGivenMoment) {
  const DeviceRecording recording = three_iterations();
  const auto peak = [&](const char* at) {
    return predict(recording, {edit(EditKind::kFree, "train.py:10", at)})
        .value()
        .after.requested.bytes;
  };
  EXPECT_EQ(peak("leave:train.py:10"), kRecordedPeak - 2064);
  EXPECT_EQ(peak("next:train.py:11"), kRecordedPeak - 2064);
  // The first block's end.
  EXPECT_EQ(peak("end:model.py:20-25"), kRecordedPeak - 2064);
}

TEST(WhatIfTest, ZeroGradAtTheTopOfTheLoopIsNoStep) {
  TrainingProgram program;
  program.set_up_model();
  const uint32_t input = program.stack(8);
  const uint32_t zero_grad = program.stack(9, {{"zero_grad", TrainingProgram::kOptimizer, 2}});
  program.alloc(1000, program.step);
  for (int i = 0; i < 4; ++i) {
    const uint64_t batch = program.alloc(2000, input);
    if (i > 0) program.free(program.gradient, 1000, zero_grad);
    const uint64_t activation = program.alloc(5000, program.forward);
    program.gradient = program.alloc(1000, program.autograd);
    program.free(activation, 5000, program.autograd);
    program.free(program.alloc(1000, program.step), 1000, program.step);
    program.free(batch, 2000, program.after);
  }
  const DeviceRecording recording = {Recording::create("loop", program.trace.snapshot()),
                                     kTraceDevice};
  // The forward pass after zero_grad() still needs the batch.
  EXPECT_THAT(predict(recording, {edit(EditKind::kFree, "train.py:8", "step")}).status().message(),
              HasSubstr("is always freed before step"));
}

TEST(WhatIfTest, FreeingLaterIsRefused) {
  EXPECT_THAT(failure_of({edit(EditKind::kFree, "train.py:10", "step")}),
              HasSubstr("is always freed before step"));
}

TEST(WhatIfTest, KeptGradientsStayFromTheFirstIterationOn) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result = predict(recording, {edit(EditKind::kKeepGradients)}).value();
  EXPECT_EQ(result.after.requested.bytes, kRecordedPeak + 1000);
}

TEST(WhatIfTest, KeptGradientsIncludeThoseLiveAtTheEnd) {
  BlockProgram program;
  for (int i = 0; i < 2; ++i) program.iteration();
  program.skip_zero_grad();
  program.iteration();
  const DeviceRecording recording = program.recording();
  const WhatIfResult result = predict(recording, {edit(EditKind::kKeepGradients)}).value();
  EXPECT_EQ(result.edits[0].effect.allocation_count, 3U);  // one kept, two freed immediately
}

TEST(WhatIfTest, KeptGradientsOfTwoBackwardPassesAreOne) {
  BlockProgram program;
  for (int i = 0; i < 6; ++i) {
    program.forward_and_backward();
    program.clear_gradients();  // no step: the passes belong to one iteration
  }
  program.iteration();
  const DeviceRecording recording = program.recording();
  const WhatIfResult result = predict(recording, {edit(EditKind::kKeepGradients)}).value();
  EXPECT_EQ(result.after.requested.bytes, result.before.requested.bytes + 1000);
}

TEST(WhatIfTest, CheckpointedFunctionsAreRefused) {
  TrainingProgram program;
  const uint32_t repeated =
      program.add_stack({{"forward", BlockProgram::kModel, 22},
                         {"recompute_fn", "/site-packages/torch/utils/checkpoint.py", 1},
                         {"unpack_hook", "/site-packages/torch/utils/checkpoint.py", 2}});
  const uint32_t forward = program.stack(11, {{"forward", BlockProgram::kModel, 22}});
  for (int i = 0; i < 3; ++i) {
    program.free(program.alloc(1000, forward), 1000, forward);
    program.free(program.alloc(1000, repeated), 1000, program.autograd);
    program.iteration();
  }
  const DeviceRecording recording = {Recording::create("checkpoint", program.trace.snapshot()),
                                     kTraceDevice};
  EXPECT_THAT(predict(recording, {edit(EditKind::kRecompute, "model.py:20-25")}).status().message(),
              HasSubstr("recomputes it already"));
}

TEST(WhatIfTest, SetToNoneUndoesKeptGradients) {
  BlockProgram program;
  program.keep_gradients();
  for (int i = 0; i < 3; ++i) program.iteration();
  const DeviceRecording recording = program.recording();
  const WhatIfResult result = predict(recording, {edit(EditKind::kSetToNone)}).value();
  EXPECT_EQ(result.before.requested.bytes, kRecordedPeak + 1000);
  EXPECT_EQ(result.after.requested.bytes, kRecordedPeak);
}

TEST(WhatIfTest, SetToNoneIsRefusedForOlderGradients) {
  TrainingProgram program;
  for (const uint64_t older : {1, 2, 3}) program.trace.ends_with(older << 40U, 1000, kLive);
  program.trace.snapshot().segments[0].blocks[0].stack = StackId(program.step);
  for (int i = 0; i < 4; ++i) {
    program.forward_and_backward(true);
    program.free(program.alloc(1000, program.step), 1000, program.step);
  }
  const DeviceRecording recording = {Recording::create("late", program.trace.snapshot()),
                                     kTraceDevice};
  EXPECT_THAT(predict(recording, {edit(EditKind::kSetToNone)}).status().message(),
              HasSubstr("older than the recording"));
}

TEST(WhatIfTest, ScalesSelectedAllocations) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kScale, "train.py:10=0.5")}).value();
  EXPECT_EQ(result.after.requested.bytes, kRecordedPeak - 1032);
}

TEST(WhatIfTest, BatchScalesWhatDiffersBetweenIterations) {
  BlockProgram program;
  for (const size_t factor : {2, 4, 6}) program.iteration(factor);
  const DeviceRecording recording = program.recording();
  const WhatIfResult result = predict(recording, {edit(EditKind::kBatch, "0.5")}).value();
  EXPECT_EQ(result.before.requested.bytes, 2000 + 6 * (kRecordedPeak - 2000));
  EXPECT_EQ(result.after.requested.bytes, 2000 + 3 * (kRecordedPeak - 2000));
}

TEST(WhatIfTest, BatchIsRefusedIfAllIterationsAreAlike) {
  EXPECT_THAT(failure_of({edit(EditKind::kBatch, "0.5")}),
              HasSubstr("all iterations have the same sizes"));
}

TEST(WhatIfTest, EditsApplyInOrder) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result = predict(recording, {edit(EditKind::kRecompute, "model.py:20-25"),
                                                  edit(EditKind::kScale, "model.py:20-25=0.5")})
                                  .value();
  EXPECT_EQ(result.after.requested.bytes, kOutsideBlocks + 504 + 4000);
  // The repeated allocations are scaled, too.
  EXPECT_GT(result.edits[1].effect.allocation_count, 18U);
}

TEST(WhatIfTest, AnEditWithoutEffectIsRefused) {
  EXPECT_THAT(failure_of({edit(EditKind::kRecompute, "train.py:10-10")}),
              AllOf(HasSubstr("no backward pass frees"), HasSubstr("3 invocations")));
}

TEST(WhatIfTest, UnknownNamesListTheNearest) {
  EXPECT_THAT(failure_of({edit(EditKind::kDrop, "modle.py:21")}), HasSubstr("mean model.py?"));
  EXPECT_THAT(failure_of({edit(EditKind::kDrop, "model.py:30")}), HasSubstr("21, 22, 23, 40"));
  EXPECT_THAT(failure_of({edit(EditKind::kDrop, "train.py:trian")}), HasSubstr("mean train?"));
}

TEST(WhatIfTest, AmbiguousNamesListTheCandidates) {
  EXPECT_THAT(failure_of({edit(EditKind::kRecompute, "model.py:forward")}),
              AllOf(HasSubstr("ambiguous"), HasSubstr("21, 22, 23, 40")));
  EXPECT_THAT(failure_of({edit(EditKind::kRecompute, "model.py:Block.forward")}),
              AllOf(HasSubstr("ambiguous"), HasSubstr("--source")));
}

TEST(WhatIfTest, NamesAreAmbiguousIfAnotherFunctionIsBetween) {
  TrainingProgram program;
  for (const int64_t line : {21, 45}) {
    program.alloc(100, program.stack(11, {{"forward", BlockProgram::kModel, line}}));
  }
  program.alloc(100, program.stack(11, {{"<lambda>", BlockProgram::kModel, 30}}));
  const auto drop = [&] {
    const DeviceRecording recording = {Recording::create("names", program.trace.snapshot()),
                                       kTraceDevice};
    return predict(recording, {edit(EditKind::kDrop, "model.py:forward")});
  };
  EXPECT_TRUE(drop().ok());
  program.alloc(100, program.stack(11, {{"helper", BlockProgram::kModel, 30}}));
  EXPECT_THAT(drop().status().message(),
              AllOf(HasSubstr("ambiguous"), HasSubstr("helper (line 30)")));
}

TEST(WhatIfTest, ReportsThePeakOfEachPhase) {
  const DeviceRecording recording = three_iterations();
  const WhatIfResult result =
      predict(recording, {edit(EditKind::kRecompute, "model.py:20-25")}).value();
  const auto of = [](const WhatIfPeaks& peaks, Phase phase) {
    return peaks.requested_by_phase[static_cast<size_t>(phase)];
  };
  EXPECT_EQ(of(result.before, Phase::kForward), result.before.requested.bytes);
  EXPECT_EQ(of(result.after, Phase::kBackward), result.after.requested.bytes);
  EXPECT_LT(of(result.after, Phase::kForward), of(result.after, Phase::kBackward));
}

}  // namespace
}  // namespace ashlar
