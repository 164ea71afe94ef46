// SPDX-License-Identifier: Apache-2.0
//
// Tests where iterations begin and which phases they have.
#include "analysis/training/iterations.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/timeline.h"
#include "unit/analysis/training/training_program.h"

namespace ashlar {
namespace {

std::vector<Phase> phases_of(const Iterations& iterations) {
  std::vector<Phase> phases;
  for (const PhaseSpan& span : iterations.phases) phases.push_back(span.phase);
  return phases;
}

TEST(IterationsTest, BeginAtTheTopOfTheLoop) {
  TrainingProgram program;
  program.set_up_model();
  std::vector<uint32_t> begins;
  for (int i = 0; i < 3; ++i) {
    begins.push_back(program.entries());
    program.iteration();
    program.alloc(8, program.after);  // belongs to this iteration, although the step is over
  }
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.source, IterationSource::kOptimizerStacks);
  ASSERT_EQ(iterations.all.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(iterations.all[i].entries.first, begins[i]);
    EXPECT_TRUE(iterations.all[i].is_complete);
  }
  EXPECT_EQ(iterations.at(0), Iterations::kNoIteration);
  EXPECT_EQ(iterations.at(begins[2] - 1), 1U);
}

TEST(IterationsTest, HaveForwardBackwardAndOptimizerPhases) {
  TrainingProgram program;
  program.set_up_model();
  program.iteration();
  EXPECT_EQ(phases_of(analyze(program).iterations),
            (std::vector<Phase>{Phase::kOther, Phase::kForward, Phase::kBackward, Phase::kOptimizer,
                                Phase::kOptimizer, Phase::kOptimizer}));
}

TEST(IterationsTest, EvaluationIsAForwardPassWithoutBackwardPass) {
  TrainingProgram program;
  program.set_up_model();
  program.iteration();
  const uint32_t begin = program.entries();
  const uint32_t evaluate = program.stack(
      16, {{"forward", TrainingProgram::kLinear, 1}, {"_call_impl", TrainingProgram::kModule, 3}});
  program.free(program.alloc(5000, evaluate), 5000, evaluate);
  program.iteration();
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.phases[iterations.phase_index_at(begin)].phase, Phase::kEvaluation);
  EXPECT_EQ(iterations.at(begin), 0U);
}

TEST(IterationsTest, GradientAccumulationIsOneIteration) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 4; ++i) {
    program.forward_and_backward(true);
    program.forward_and_backward();
    program.optimizer_step();
  }
  EXPECT_EQ(analyze(program).iterations.complete_count(), 4U);
}

TEST(IterationsTest, AnnotatedStepsCountWithoutAllocations) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 3; ++i) {
    program.forward_and_backward();
    program.annotate("Optimizer.step#SGD.step", "START");
    program.annotate("Optimizer.step#SGD.step", "END");
    program.free(program.gradient, 1000, program.zero_grad);
  }
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.source, IterationSource::kOptimizerAnnotations);
  EXPECT_EQ(iterations.complete_count(), 3U);
}

TEST(IterationsTest, TwoOptimizersInTurnAreOneIteration) {
  TrainingProgram program;
  program.set_up_model();
  const uint32_t critic = program.stack(8, {{"_make_grads", "/torch/autograd/__init__.py", 1},
                                            {"backward", TrainingProgram::kTensor, 1}});
  const uint32_t generator = program.call_backward;
  for (int i = 0; i < 3; ++i) {
    for (const uint32_t call : {critic, generator}) {
      program.call_backward = call;
      program.forward_and_backward();
      program.annotate("Optimizer.step#Adam.step", "START");
      program.optimizer_step();
      program.annotate("Optimizer.step#Adam.step", "END");
    }
  }
  EXPECT_EQ(analyze(program).iterations.complete_count(), 3U);
}

TEST(IterationsTest, UserRangesTakePrecedence) {
  TrainingProgram program;
  program.set_up_model();
  std::vector<uint32_t> begins;
  for (int i = 0; i < 3; ++i) {
    begins.push_back(program.entries());
    program.annotate("step " + std::to_string(i), "START");
    program.iteration();
    program.annotate("step " + std::to_string(i), "END");
    program.alloc(8, program.after);
  }
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.source, IterationSource::kUserRanges);
  ASSERT_EQ(iterations.all.size(), 3U);
  EXPECT_EQ(iterations.all[1].entries.first, begins[1]);
}

TEST(IterationsTest, FreesWithStacksOfAllocationsSplitNoPass) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 3; ++i) program.iteration();
  program.record_allocation_stacks_only();
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.complete_count(), 3U);
  EXPECT_EQ(std::count_if(iterations.phases.begin(), iterations.phases.end(),
                          [](const PhaseSpan& each) { return each.phase == Phase::kBackward; }),
            3);
}

TEST(IterationsTest, FindsIterationsAmongManyAnnotatedRanges) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 3; ++i) {
    program.annotate("step " + std::to_string(i), "START");
    program.iteration();
    program.annotate("step " + std::to_string(i), "END");
    for (size_t k = 1; k < 400; ++k) {
      program.annotate(std::string(k, 'x'), "START");
      program.annotate(std::string(k, 'x'), "END");
    }
  }
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.source, IterationSource::kUserRanges);
  EXPECT_EQ(iterations.all.size(), 3U);
}

TEST(IterationsTest, RepeatedModelCallsAreIterations) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 4; ++i) {
    const uint64_t tokens = program.alloc(64, program.input);
    for (int layer = 0; layer < 5; ++layer) {
      program.free(program.alloc(5000, program.forward), 5000, program.forward);
    }
    program.free(tokens, 64, program.input);
  }
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.source, IterationSource::kRepetition);
  EXPECT_EQ(iterations.complete_count(), 4U);
}

TEST(IterationsTest, LayersOfOneForwardPassAreNotIterations) {
  TrainingProgram program;
  program.set_up_model();
  program.alloc(64, program.input);
  const uint32_t norm = program.stack(
      11, {{"forward", TrainingProgram::kLinear, 9}, {"_call_impl", TrainingProgram::kModule, 3}});
  for (int layer = 0; layer < 12; ++layer) {
    program.alloc(5000, program.forward);
    program.alloc(5000, norm);
  }
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.source, IterationSource::kNone);
  EXPECT_FALSE(iterations.problem.empty());
}

TEST(IterationsTest, IterationThatRunsOutOfMemoryIsIncomplete) {
  TrainingProgram program;
  program.set_up_model();
  program.iteration();
  program.iteration();
  program.alloc(64, program.input);
  program.alloc(5000, program.forward);
  program.trace.add(TraceAction::kOom, 0, 5000);
  const Iterations iterations = analyze(program).iterations;
  EXPECT_EQ(iterations.all.size(), 3U);
  EXPECT_EQ(iterations.complete_count(), 2U);
}

TEST(IterationsTest, EmptyTraceHasNone) {
  TrainingProgram program;
  const Iterations iterations = analyze(program).iterations;
  EXPECT_TRUE(iterations.all.empty());
  EXPECT_EQ(iterations.problem, "the recording has no history");
}

TEST(IterationsTest, PeaksAreFoundByIterationAndPhase) {
  TrainingProgram program;
  program.set_up_model();
  program.iteration();
  program.iteration();
  const AnalyzedProgram analyzed = analyze(program);
  const Snapshot& snapshot = program.trace.snapshot();
  const Timeline timeline = make_timeline(snapshot, kTraceDevice, analyzed.allocations);
  const std::vector<IterationPeaks> peaks =
      peaks_of(analyzed.iterations, timeline, snapshot.device_traces[0]);
  ASSERT_EQ(peaks.size(), 2U);
  // Parameters, tokens, activation, backward temporary, gradient, seed; then also Adam's state.
  EXPECT_EQ(peaks[0].whole.bytes, 1000U + 64 + 5000 + 5000 + 1000 + 4);
  EXPECT_EQ(peaks[1].whole.bytes, peaks[0].whole.bytes + 1000);
  EXPECT_EQ(peaks[1].by_phase[static_cast<size_t>(Phase::kForward)].bytes,
            1000U + 1000 + 64 + 5000 + 700);
  EXPECT_EQ(peaks[1].by_phase[static_cast<size_t>(Phase::kEvaluation)].entry, std::nullopt);
}

}  // namespace
}  // namespace ashlar
