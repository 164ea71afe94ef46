// SPDX-License-Identifier: Apache-2.0
//
// Tests where invocations of a function begin and end.
#include "analysis/whatif/invocations.h"

#include <gtest/gtest.h>

#include "unit/analysis/whatif/edit_program.h"

namespace ashlar {
namespace {

constexpr const char* kModel = "/srv/jobs/model.py";

// Allocates in a function at one line of the model, directly or in a linear layer.
class OneLineFunction {
 public:
  explicit OneLineFunction(TrainingProgram& program) : program_(program) {}

  // down(gelu(up(x))); each linear layer makes `linear_count` allocations.
  void call(int linear_count = 1) {
    for (int i = 0; i < linear_count; ++i) program_.alloc(100, linear_);
    program_.alloc(200, line_);
    for (int i = 0; i < linear_count; ++i) program_.alloc(300, linear_);
  }
  void call_linear() { program_.alloc(100, linear_); }

 private:
  TrainingProgram& program_;
  uint32_t linear_ = program_.stack(11, {{"forward", TrainingProgram::kLinear, 1},
                                         {"_call_impl", TrainingProgram::kModule, 3},
                                         {"forward", kModel, 50}});
  uint32_t line_ = program_.stack(11, {{"forward", kModel, 50}});
};

std::vector<Invocation> invocations_in_model(TrainingProgram& program) {
  const ProgramRun made(program);
  return find_invocations(made.run, made.paths, made.lines(kModel, 50, 51));
}

TEST(InvocationsTest, OneLineFunctionsAreSplit) {
  for (const int linear_count : {1, 2}) {
    TrainingProgram program;
    OneLineFunction function(program);
    for (int i = 0; i < 3; ++i) function.call(linear_count);
    const std::vector<Invocation> found = invocations_in_model(program);
    ASSERT_EQ(found.size(), 3U);
    const auto length = static_cast<uint32_t>(2 * linear_count + 1);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i].first, i * length);
      EXPECT_EQ(found[i].end, (i + 1) * length);
    }
  }
}

TEST(InvocationsTest, EqualStacksAreOneInvocation) {
  TrainingProgram program;
  OneLineFunction function(program);
  for (int i = 0; i < 3; ++i) function.call_linear();
  EXPECT_EQ(invocations_in_model(program).size(), 1U);
}

TEST(InvocationsTest, InnerCallsOfAOneLineFunctionAreNotSplit) {
  TrainingProgram program;
  OneLineFunction function(program);
  function.call();
  EXPECT_EQ(invocations_in_model(program).size(), 1U);
}

TEST(InvocationsTest, EndIncludesTheCompletionOfAFree) {
  TrainingProgram program;
  const uint32_t line = program.stack(11, {{"forward", kModel, 50}});
  const uint64_t temporary = program.alloc(100, line);
  program.free(temporary, 100, program.stack(11, {{"forward", kModel, 51}}));
  program.alloc(64, program.input);
  const std::vector<Invocation> found = invocations_in_model(program);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].end, 3U);
}

}  // namespace
}  // namespace ashlar
