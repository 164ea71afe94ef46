// SPDX-License-Identifier: Apache-2.0
//
// Tests the category of each kind of allocation, and the rule that assigns it.
#include "analysis/training/categories.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "unit/analysis/training/training_program.h"

namespace ashlar {
namespace {

constexpr size_t index_of(Category category) { return static_cast<size_t>(category); }

TEST(CategoriesTest, DependOnStacksAndLifetimes) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 3; ++i) program.iteration();
  const CategoryBytes peaks = analyze(program).categories.peak_bytes;
  EXPECT_EQ(peaks[index_of(Category::kParameters)], 1000U);
  EXPECT_EQ(peaks[index_of(Category::kGradients)], 1000U);
  EXPECT_EQ(peaks[index_of(Category::kOptimizerState)], 1000U);
  EXPECT_EQ(peaks[index_of(Category::kActivations)], 5000U);
  EXPECT_EQ(peaks[index_of(Category::kInputs)], 64U);
  EXPECT_EQ(peaks[index_of(Category::kForwardTemporaries)], 700U);
  EXPECT_EQ(peaks[index_of(Category::kBackwardTemporaries)], 5004U);
  EXPECT_EQ(peaks[index_of(Category::kOptimizerTemporaries)], 1000U);
  EXPECT_EQ(peaks[index_of(Category::kUnknown)], 0U);
}

TEST(CategoriesTest, WorkspaceOfBackwardPassIsNotGradient) {
  TrainingProgram program;
  program.set_up_model();
  const uint64_t tokens = program.alloc(64, program.input);
  const uint64_t seed = program.alloc(4, program.call_backward);
  program.alloc(1000, program.autograd);  // kept, and as large as the parameter
  program.gradient = program.alloc(1000, program.autograd);
  program.free(seed, 4, program.call_backward);
  program.free(tokens, 64, program.after);
  program.optimizer_step();
  for (int i = 0; i < 3; ++i) program.iteration();
  const CategoryBytes peaks = analyze(program).categories.peak_bytes;
  EXPECT_EQ(peaks[index_of(Category::kGradients)], 1000U);
  EXPECT_EQ(peaks[index_of(Category::kWorkspaces)], 1000U);
}

TEST(CategoriesTest, AllocationsLiveAtFailureAreActivations) {
  TrainingProgram program;
  program.set_up_model();
  program.iteration();
  const uint64_t tokens = program.alloc(64, program.input);
  const uint64_t activation = program.alloc(9000, program.forward);
  const uint64_t temporary = program.alloc(700, program.forward);
  program.free(temporary, 700, program.forward);
  program.trace.add(TraceAction::kOom, 0, 9000).from(program.forward);
  program.free(activation, 9000, program.after);  // by the exception
  program.free(tokens, 64, program.after);
  const CategoryBytes peaks = analyze(program).categories.peak_bytes;
  EXPECT_EQ(peaks[index_of(Category::kActivations)], 9000U);
  EXPECT_EQ(peaks[index_of(Category::kForwardTemporaries)], 700U);
}

TEST(CategoriesTest, ResultsOfEachIterationAreKept) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 4; ++i) {
    program.iteration();
    program.alloc(300, program.after);
  }
  EXPECT_EQ(analyze(program).categories.peak_bytes[index_of(Category::kKept)], 1200U);
}

TEST(CategoriesTest, SingleAllocationKeptByLibraryIsWorkspace) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 4; ++i) {
    if (i == 0) program.alloc(300, program.forward);
    program.iteration();
  }
  EXPECT_EQ(analyze(program).categories.peak_bytes[index_of(Category::kWorkspaces)], 300U);
}

// DataParallel copies the parameters to the other devices in each forward pass.
TEST(CategoriesTest, ReplicasAreParametersOfOtherDevices) {
  TrainingProgram program;
  const uint32_t replicate =
      program.stack(11, {{"broadcast_coalesced", "/site-packages/torch/nn/parallel/comm.py", 1},
                         {"replicate", "/site-packages/torch/nn/parallel/replicate.py", 1},
                         {"_call_impl", TrainingProgram::kModule, 3}});
  for (int i = 0; i < 3; ++i) {
    const uint64_t weight = program.alloc(1000, replicate);
    const uint64_t bias = program.alloc(50, replicate);
    const uint64_t activation = program.alloc(5000, program.forward);
    program.free(bias, 50, program.forward);
    const uint64_t gradient = program.alloc(1000, program.autograd);
    program.free(weight, 1000, program.autograd);
    program.free(activation, 5000, program.autograd);
    program.free(gradient, 1000, program.autograd);
  }
  const CategoryBytes peaks = analyze(program).categories.peak_bytes;
  EXPECT_EQ(peaks[index_of(Category::kParameters)], 1050U);
  EXPECT_EQ(peaks[index_of(Category::kActivations)], 5000U);
  EXPECT_EQ(peaks[index_of(Category::kGradients)], 0U);
}

// On the device of the model, replication allocates buffers that it frees at once.
TEST(CategoriesTest, BuffersOfReplicationAreNotParameters) {
  TrainingProgram program;
  program.set_up_model();
  const uint32_t replicate =
      program.stack(11, {{"replicate", "/site-packages/torch/nn/parallel/replicate.py", 1},
                         {"_call_impl", TrainingProgram::kModule, 3}});
  for (int i = 0; i < 3; ++i) {
    program.free(program.alloc(900, replicate), 900, replicate);
    program.free(program.alloc(800, replicate), 800, replicate);
    program.iteration();
  }
  EXPECT_EQ(analyze(program).categories.peak_bytes[index_of(Category::kParameters)], 1000U);
}

TEST(CategoriesTest, OlderAllocationsOfForwardPassAreActivations) {
  TrainingProgram program;
  const uint32_t cache =
      program.stack(1, {{"_allocate_kv_cache", "/site-packages/vllm/worker/cache_engine.py", 1}});
  const uint32_t weights = program.stack(
      1, {{"create_weights", "/site-packages/vllm/model_executor/layers/linear.py", 1}});
  uint64_t address = 0;
  for (const uint32_t stack : {program.forward, cache, weights}) {
    program.trace.ends_with(address += kMiB, 5000, kLive);
    program.trace.snapshot().segments.back().blocks[0].stack = StackId(stack);
  }
  const AnalyzedProgram analyzed = analyze(program);
  EXPECT_EQ(analyzed.categories.of(0), Category::kActivations);
  EXPECT_EQ(analyzed.categories.of(1), Category::kWorkspaces);
  EXPECT_EQ(analyzed.categories.of(2), Category::kParameters);
}

TEST(CategoriesTest, RecomputedForwardPassMakesActivations) {
  TrainingProgram program;
  program.set_up_model();
  const uint32_t recompute =
      program.add_stack({{"forward", TrainingProgram::kLinear, 1},
                         {"unpack_hook", "/site-packages/torch/utils/checkpoint.py", 1}});
  for (int i = 0; i < 3; ++i) {
    const uint64_t seed = program.alloc(4, program.call_backward);
    program.free(program.alloc(9000, recompute), 9000, program.autograd);
    program.free(seed, 4, program.call_backward);
    program.iteration();
  }
  const CategoryBytes peaks = analyze(program).categories.peak_bytes;
  EXPECT_EQ(peaks[index_of(Category::kActivations)], 9000U);
  EXPECT_EQ(peaks[index_of(Category::kBackwardTemporaries)], 5004U);
}

TEST(CategoriesTest, RecognizesAutogradThreadInNativeStacks) {
  TrainingProgram program;
  program.autograd = program.add_stack(
      {{"at::empty", "??", 0}, {"torch::autograd::Engine::thread_main(int)", "??", 0}});
  program.set_up_model();
  for (int i = 0; i < 3; ++i) program.iteration();
  const CategoryBytes peaks = analyze(program).categories.peak_bytes;
  EXPECT_EQ(peaks[index_of(Category::kGradients)], 1000U);
  EXPECT_EQ(peaks[index_of(Category::kActivations)], 5000U);
}

TEST(CategoriesTest, DataLoadedBeforeTrainingIsInput) {
  TrainingProgram program;
  program.alloc(123'456, program.stack(5));
  program.set_up_model();
  for (int i = 0; i < 3; ++i) program.iteration();
  const AnalyzedProgram analyzed = analyze(program);
  EXPECT_EQ(analyzed.categories.of(0), Category::kInputs);
}

TEST(CategoriesTest, MatchesOlderAllocationsBySize) {
  TrainingProgram program;
  for (int i = 0; i < 3; ++i) program.iteration();
  for (uint64_t i = 1; i <= 2; ++i) program.trace.ends_with(i << 40U, 1000, kLive);
  program.trace.ends_with(uint64_t{3} << 40U, 777, kLive);
  const AnalyzedProgram analyzed = analyze(program);
  const CategoryBytes at_begin =
      bytes_by_category(analyzed.allocations, analyzed.categories, std::nullopt);
  EXPECT_EQ(at_begin[index_of(Category::kParameters)], 1000U);
  EXPECT_EQ(at_begin[index_of(Category::kOptimizerState)], 1000U);
  EXPECT_EQ(at_begin[index_of(Category::kUnknown)], 777U);
}

TEST(CategoriesTest, OlderStateThatAStepReplacesIsOptimizerState) {
  TrainingProgram program;
  program.forward_and_backward();
  program.alloc(1000, program.step);
  program.free(uint64_t{1} << 40U, 1000, program.step);
  program.free(program.gradient, 1000, program.zero_grad);
  program.trace.ends_with(uint64_t{2} << 40U, 1000, kLive);  // the parameter
  const AnalyzedProgram analyzed = analyze(program);
  const CategoryBytes at_begin =
      bytes_by_category(analyzed.allocations, analyzed.categories, std::nullopt);
  EXPECT_EQ(at_begin[index_of(Category::kParameters)], 1000U);
  EXPECT_EQ(at_begin[index_of(Category::kOptimizerState)], 1000U);
}

TEST(CategoriesTest, AnOlderBlockThatZeroGradFreesIsAGradient) {
  TrainingProgram program;
  program.free(uint64_t{1} << 40U, 500, program.zero_grad);
  for (int i = 0; i < 3; ++i) program.iteration();
  const AnalyzedProgram analyzed = analyze(program);
  const CategoryBytes at_begin =
      bytes_by_category(analyzed.allocations, analyzed.categories, std::nullopt);
  EXPECT_EQ(at_begin[index_of(Category::kGradients)], 500U);
}

TEST(CategoriesTest, FindsInputsDespiteCallsBetweenIterations) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 3; ++i) {
    program.annotate("step " + std::to_string(i), "START");
    const uint64_t tokens = program.alloc(64, program.input);
    program.free(program.alloc(5000, program.forward), 5000, program.forward);
    program.free(tokens, 64, program.input);
    program.annotate("step " + std::to_string(i), "END");
    program.free(program.alloc(300, program.forward), 300, program.forward);
  }
  const AnalyzedProgram analyzed = analyze(program);
  ASSERT_EQ(analyzed.iterations.source, IterationSource::kUserRanges);
  for (uint32_t i = 0; i < analyzed.allocations.all.size(); ++i) {
    if (analyzed.allocations.all[i].bytes != 64) continue;
    EXPECT_EQ(analyzed.categories.of(i), Category::kInputs) << "allocation " << i;
  }
}

TEST(CategoriesTest, AreUnknownWithoutStacks) {
  TrainingProgram program;
  program.trace.alloc(1U << 20U, 100).alloc(2U << 20U, 200);
  program.trace.snapshot().tables = {};
  EXPECT_EQ(analyze(program).categories.peak_bytes[index_of(Category::kUnknown)], 300U);
}

}  // namespace
}  // namespace ashlar
