// SPDX-License-Identifier: Apache-2.0
//
// Tests the traits that are derived from the frames of a stack.
#include "analysis/training/stack_traits.h"

#include <gtest/gtest.h>

#include "unit/analysis/training/training_program.h"

namespace ashlar {
namespace {

TEST(StackTraitsTest, TreatsEmptyStackAsAutogradIfOthersArePython) {
  TrainingProgram program;
  const StackTraitsTable traits(program.trace.snapshot());
  EXPECT_EQ(traits.of(StackId(program.autograd)).alloc_site, CallSite::kAutograd);
  // No free has a stack, so an empty stack is no evidence for a free.
  EXPECT_EQ(traits.of(StackId(program.autograd)).free_site, CallSite::kUnknown);
}

TEST(StackTraitsTest, TreatsEmptyStackAsUnknownIfOthersAreNative) {
  TrainingProgram program;
  program.add_stack({{"at::empty", "??", 0}});
  const StackTraitsTable traits(program.trace.snapshot());
  EXPECT_EQ(traits.of(StackId(program.autograd)).alloc_site, CallSite::kUnknown);
}

TEST(StackTraitsTest, AcceptsWindowsPaths) {
  TrainingProgram program;
  const uint32_t step =
      program.stack(1, {{"wrapper", R"(C:\venv\Lib\site-packages\torch\optim\optimizer.py)", 1}});
  const StackTraitsTable traits(program.trace.snapshot());
  EXPECT_EQ(traits.of(StackId(step)).alloc_site, CallSite::kOptimizer);
}

TEST(StackTraitsTest, ExcludesClosuresFromOptimizerStep) {
  TrainingProgram program;
  const uint32_t closure = program.stack(
      1, {{"closure", TrainingProgram::kLoop, 3}, {"step", TrainingProgram::kAdam, 1}});
  const StackTraitsTable traits(program.trace.snapshot());
  EXPECT_EQ(traits.of(StackId(closure)).alloc_site, CallSite::kOther);
}

TEST(StackTraitsTest, ExcludesLearningRateSchedulers) {
  TrainingProgram program;
  const uint32_t scheduler =
      program.stack(1, {{"step", "/site-packages/torch/optim/lr_scheduler.py", 1}});
  const StackTraitsTable traits(program.trace.snapshot());
  EXPECT_EQ(traits.of(StackId(scheduler)).alloc_site, CallSite::kOther);
}

TEST(StackTraitsTest, IgnoresUserFolderNamedOptim) {
  constexpr const char* kUserFile = "/srv/optim/main.py";
  TrainingProgram program;
  const uint32_t called = program.add_stack({{"step", kUserFile, 3}, {"<module>", kUserFile, 9}});
  const uint32_t setup =
      program.add_stack({{"__init__", kUserFile, 2}, {"<module>", kUserFile, 9}});
  const uint32_t optimizer =
      program.stack(13, {{"step", kUserFile, 3}, {"_use_grad", TrainingProgram::kOptimizer, 1}});
  const uint32_t loaded = program.stack(
      13, {{"__init__", kUserFile, 2}, {"add_param_group", TrainingProgram::kOptimizer, 1}});
  const StackTraitsTable traits(program.trace.snapshot());
  EXPECT_EQ(traits.of(StackId(called)).alloc_site, CallSite::kOther);
  EXPECT_FALSE(traits.of(StackId(setup)).in_optimizer_setup);
  EXPECT_EQ(traits.of(StackId(optimizer)).alloc_site, CallSite::kOptimizer);
  EXPECT_TRUE(traits.of(StackId(loaded)).in_optimizer_setup);
}

TEST(StackTraitsTest, IgnoresWorkspaceFunctionsOfUserCode) {
  TrainingProgram program;
  const auto is_workspace = [&](const char* name) {
    const uint32_t stack = program.stack(11, {{name, "", 0}});
    const StackTraitsTable traits(program.trace.snapshot());
    return traits.of(StackId(stack)).in_workspace_function;
  };
  EXPECT_TRUE(is_workspace("at::cuda::getCurrentCUDABlasHandle::getNewWorkspace()"));
  EXPECT_TRUE(
      is_workspace("at::native::(anonymous namespace)::Workspace::Workspace(unsigned long)"));
  EXPECT_FALSE(is_workspace("void at::native::launch<at::native::Workspace>(int)"));
  EXPECT_FALSE(is_workspace("void at::native::run(at::native::Workspace&)"));
}

TEST(StackTraitsTest, IgnoresWorkspaceFunctionsOfCppPrograms) {
  TraceBuilder trace;
  SnapshotTables& tables = trace.snapshot().tables;
  tables.frames = {{"make_workspace(int)", "main.cc", 3}, {"at::cuda::getNewWorkspace()", "", 0}};
  tables.stacks = {{}, {{0}, {}}, {{1, 0}, {}}};
  const StackTraitsTable traits(trace.snapshot());
  EXPECT_FALSE(traits.of(StackId(1)).in_workspace_function);
  EXPECT_TRUE(traits.of(StackId(2)).in_workspace_function);
}

TEST(StackTraitsTest, FunctionsOfScriptsWithoutSuffixArePython) {
  constexpr const char* kScript = "/srv/bin/train";
  TrainingProgram program;
  const uint32_t called = program.add_stack({{"zero_grad", kScript, 3}, {"<module>", kScript, 9}});
  const StackTraitsTable traits(program.trace.snapshot());
  EXPECT_EQ(traits.of(StackId(called)).alloc_site, CallSite::kZeroGrad);
  EXPECT_EQ(traits.call_path(StackId(called)).size(), 2U);
}

TEST(StackTraitsTest, FreesHaveNoSiteIfTheirStacksAreOfAllocations) {
  TrainingProgram program;
  const StackTraitsTable traits(program.trace.snapshot(), FreeStacks::kOfAllocation);
  EXPECT_EQ(traits.of(StackId(program.forward)).alloc_site, CallSite::kOther);
  EXPECT_EQ(traits.of(StackId(program.forward)).free_site, CallSite::kUnknown);
}

TEST(StackTraitsTest, ReturnsEmptyTraitsForUnknownStack) {
  const StackTraitsTable traits(Snapshot{});
  EXPECT_FALSE(traits.has_stacks());
  EXPECT_EQ(traits.of(StackId(77)).alloc_site, CallSite::kUnknown);
}

}  // namespace
}  // namespace ashlar
