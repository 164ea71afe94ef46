// SPDX-License-Identifier: Apache-2.0
//
// Tests the bytes of source lines, with and without calls, and of allocations outside user code.
#include "analysis/training/source_lines.h"

#include <gtest/gtest.h>

#include <numeric>

#include "unit/analysis/training/training_program.h"

namespace ashlar {
namespace {

constexpr const char* kModel = "/srv/jobs/model.py";

DeviceRecording recording_of(TraceBuilder& trace) {
  return {Recording::create("test", std::move(trace.snapshot())), kTraceDevice};
}

const SourceLine* find(const SourceLines& found, std::string_view path, int64_t line) {
  for (const SourceFile& file : found.files) {
    if (file.path != path) continue;
    for (const SourceLine& each : file.lines) {
      if (each.line == line) return &each;
    }
  }
  return nullptr;
}

TEST(SourceLinesTest, SeparatesOwnBytesFromThoseOfCalls) {
  TrainingProgram program;
  const uint32_t inner =
      program.stack(11, {{"linear", TrainingProgram::kLinear, 1}, {"forward", kModel, 7}});
  const uint32_t outer = program.stack(11, {{"cat", TrainingProgram::kLinear, 2}});
  const uint64_t freed = program.alloc(100, inner);
  program.free(freed, 100, inner);
  program.alloc(2000, inner);
  program.alloc(30'000, outer);
  const DeviceRecording recording = recording_of(program.trace);
  const SourceLines& found = source_lines_of(recording);
  EXPECT_EQ(found.total, (LineUse{32'000, 2, 32'100, 3}));
  ASSERT_EQ(found.files.size(), 2U);
  EXPECT_EQ(found.files[0].path, TrainingProgram::kLoop) << "it has more bytes of its own";
  EXPECT_EQ(found.files[1].own, (LineUse{2000, 1, 2100, 2}));
  const SourceLine* called = find(found, kModel, 7);
  ASSERT_NE(called, nullptr);
  EXPECT_EQ(called->function, "forward");
  EXPECT_EQ(called->own, (LineUse{2000, 1, 2100, 2}));
  EXPECT_EQ(called->with_calls, called->own);
  const SourceLine* calling = find(found, TrainingProgram::kLoop, 11);
  ASSERT_NE(calling, nullptr);
  EXPECT_EQ(calling->own, (LineUse{30'000, 1, 30'000, 1}));
  EXPECT_EQ(calling->with_calls, found.total);
  EXPECT_EQ(find(found, TrainingProgram::kLinear, 1), nullptr) << "a library";
}

TEST(SourceLinesTest, CountsRecursiveCallsOnce) {
  TrainingProgram program;
  program.alloc(500, program.stack(11, {{"walk", kModel, 7}, {"walk", kModel, 7}}));
  const DeviceRecording recording = recording_of(program.trace);
  const SourceLine* line = find(source_lines_of(recording), kModel, 7);
  ASSERT_NE(line, nullptr);
  EXPECT_EQ(line->with_calls, (LineUse{500, 1, 500, 1}));
}

TEST(SourceLinesTest, CategoriesSumToBytesAtPeak) {
  TrainingProgram program;
  program.set_up_model();
  for (int i = 0; i < 3; ++i) program.iteration();
  const DeviceRecording recording = recording_of(program.trace);
  const SourceLine* forward =
      find(source_lines_of(recording), TrainingProgram::kLoop, 11);  // see TrainingProgram
  ASSERT_NE(forward, nullptr);
  EXPECT_EQ(forward->categories_at_peak[static_cast<size_t>(Category::kActivations)], 5000U);
  for (const SourceFile& file : source_lines_of(recording).files) {
    for (const SourceLine& line : file.lines) {
      const CategoryBytes& bytes = line.categories_at_peak;
      EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), size_t{0}), line.own.bytes_at_peak);
    }
  }
}

TEST(SourceLinesTest, LabelsAllocationsOutsideUserCode) {
  TraceBuilder trace;
  SnapshotTables& tables = trace.snapshot().tables;
  tables.frames = {{},
                   {"forward", kModel, 7},
                   {"torch::autograd::Engine::evaluate_function", "", 0},
                   {"torch::autograd::generated::MulBackward0::apply", "", 0},
                   {"apply", "/x/site-packages/lib.py", 3}};
  tables.stacks = {{}, {{1}, {}}, {{3, 2}, {}}, {{4}, {}}};
  trace.ends_with(1 << 20, 4096, kLive);
  trace.alloc(2 << 20, 10)
      .from(1)
      .alloc(3 << 20, 200)
      .from(2)
      .alloc(4 << 20, 30)
      .from(3)
      .alloc(5 << 20, 1);
  const DeviceRecording recording = recording_of(trace);
  const SourceLines& found = source_lines_of(recording);
  std::vector<std::pair<std::string, size_t>> others;
  for (const UseOutsideUserCode& each : found.outside_user_code)
    others.emplace_back(each.name, each.use.bytes_at_peak);
  EXPECT_EQ(others,
            (std::vector<std::pair<std::string, size_t>>{{"allocated before the recording", 4096},
                                                         {"backward pass (autograd thread)", 200},
                                                         {"library code", 30},
                                                         {"no stack was recorded", 1}}));
  EXPECT_EQ(found.outside_user_code[0].use.allocated_bytes, 0U);
  size_t sum = 0;
  for (const UseOutsideUserCode& each : found.outside_user_code) sum += each.use.bytes_at_peak;
  for (const SourceFile& each : found.files) sum += each.own.bytes_at_peak;
  EXPECT_EQ(sum, found.total.bytes_at_peak);
}

TEST(SourceLinesTest, DistinguishesUnknownLinesByFunction) {
  TraceBuilder trace;
  SnapshotTables& tables = trace.snapshot().tables;
  tables.frames = {{}, {"run()", "", 0}, {"step()", "??", -1}, {"main", "main.cc", 0}};
  tables.stacks = {{}, {{1, 3}, {}}, {{2, 3}, {}}};
  trace.alloc(1 << 20, 10).from(1).alloc(2 << 20, 200).from(2);
  const DeviceRecording recording = recording_of(trace);
  const SourceLines& found = source_lines_of(recording);
  ASSERT_EQ(found.files.size(), 2U);
  EXPECT_EQ(found.files[0].path, "");
  ASSERT_EQ(found.files[0].lines.size(), 2U);
  EXPECT_EQ(found.files[0].lines[0].function, "run()");
  EXPECT_EQ(found.files[0].lines[1].own.bytes_at_peak, 200U);
  EXPECT_EQ(found.files[0].lines[1].line, 0);
  EXPECT_EQ(found.files[1].lines[0].with_calls.bytes_at_peak, 210U);
}

}  // namespace
}  // namespace ashlar
