// SPDX-License-Identifier: Apache-2.0
//
// Compares categories and iterations of recorded programs with the sizes that the programs computed
// from their own tensors (recordings/truth.tsv).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/training/leaks.h"
#include "analysis/training/training_analysis.h"

namespace ashlar {
namespace {

const std::string kRecordings = std::string(ASHLAR_GOLDEN_FOLDER) + "/recordings/";

struct TrueSizes {
  std::string name{};
  std::map<std::string, size_t> values{};
};

std::vector<TrueSizes> read_true_sizes() {
  std::ifstream file(kRecordings + "truth.tsv");
  std::string line;
  std::getline(file, line);
  std::istringstream header(line);
  std::vector<std::string> columns;
  for (std::string column; header >> column;) columns.push_back(column);
  std::vector<TrueSizes> rows;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    TrueSizes row;
    cells >> row.name;
    for (size_t i = 1; i < columns.size(); ++i) cells >> row.values[columns[i]];
    rows.push_back(row);
  }
  return rows;
}

class RecordedProgramTest : public testing::TestWithParam<TrueSizes> {
 protected:
  // Returns the recording, which the tests of one program share.
  static const DeviceRecording& open() {
    static std::string name;
    static std::optional<DeviceRecording> opened;
    if (name != GetParam().name) {
      name = GetParam().name;
      Result<DeviceRecording> selected =
          select_device(Recording::open(kRecordings + name + ".pickle.xz").value(), std::nullopt);
      opened.emplace(std::move(selected).value());
    }
    return *opened;
  }
  static size_t truth(const std::string& column) { return GetParam().values.at(column); }
  static bool is(const char* name) { return GetParam().name == name; }
};

size_t maximum(const TrainingAnalysis& analysis, Category category) {
  return analysis.categories.peak_bytes[static_cast<size_t>(category)];
}

TEST_P(RecordedProgramTest, CategoriesHaveSizesOfModel) {
  const DeviceRecording& recording = open();
  const TrainingAnalysis& analysis = training_of(recording);
  EXPECT_EQ(maximum(analysis, Category::kParameters),
            truth("parameter_bytes") + truth("buffer_bytes"));
  EXPECT_EQ(maximum(analysis, Category::kOptimizerState), truth("optimizer_state_bytes"));
  // In the file without history, gradients were freed before the snapshot.
  EXPECT_EQ(maximum(analysis, Category::kGradients),
            is("state_only") ? 0 : truth("gradient_bytes"));
}

TEST_P(RecordedProgramTest, MostBytesAtPeakHaveCategory) {
  const DeviceRecording& recording = open();
  const Peak& peak = recording.timeline().requested_peak;
  const CategoryBytes bytes =
      bytes_by_category(recording.allocations(), training_of(recording).categories, peak.entry);
  EXPECT_LT(bytes[static_cast<size_t>(Category::kUnknown)] * 20, peak.bytes);
}

TEST_P(RecordedProgramTest, FindsAllIterations) {
  const DeviceRecording& recording = open();
  const Iterations& iterations = training_of(recording).iterations;
  size_t expected = truth("iterations");
  if (is("inference")) expected = 3;       // no training, but three requests
  if (is("lost_beginning")) expected = 7;  // the beginning of the first is lost
  if (is("late_recording")) expected = 5;  // recorded after two iterations
  if (is("state_only")) expected = 0;
  EXPECT_EQ(iterations.complete_count(), expected) << describe(iterations.source);
}

TEST_P(RecordedProgramTest, PhasesCoverTheTraceOnce) {
  const DeviceRecording& recording = open();
  uint32_t end = 0;
  for (const PhaseSpan& span : training_of(recording).iterations.phases) {
    EXPECT_EQ(span.entries.first, end);
    EXPECT_FALSE(span.entries.is_empty());
    end = span.entries.end;
  }
  EXPECT_EQ(end, recording.trace().size());
}

// Returns the name of the function whose lines leak in the program; empty if the program does not
// leak.
std::string leaking_function() {
  const std::string& name = RecordedProgramTest::GetParam().name;
  if (name == "out_of_memory") return "out_of_memory";  // keeps a tensor of each step, too
  if (name == "leak_losses") return "<lambda>";
  if (name == "leak_batches") return "make_tokens";
  if (name == "leak_copies") return "copy";
  if (name == "leak_cache_by_step") return "remember";
  if (name == "leak_every_second_step") return "sometimes";
  if (name == "leak_growing") return "grow";
  if (name == "leak_concatenation") return "append";
  if (name == "leak_no_grad") return "leak_no_grad";
  if (name == "leak_graph") return "language_loss";
  if (name == "leak_convolution_features") return "<lambda>";
  return {};
}

TEST_P(RecordedProgramTest, FindsLeakingLine) {
  const DeviceRecording& recording = open();
  const Recording& file = recording.recording();
  const LeakReport report =
      find_leaks(recording.allocations(), training_of(recording).iterations, file.stack_numbers());
  EXPECT_EQ(report.has_enough_iterations(), !is("state_only"));
  const std::string function = leaking_function();
  if (function.empty()) {
    EXPECT_TRUE(report.leaks.empty()) << file.stacks().frames(report.leaks[0].group.stack)[0]->line;
    return;
  }
  double bytes_per_iteration = 0;
  for (const Leak& leak : report.leaks) {
    const std::vector<const Frame*> frames = file.stacks().frames(leak.group.stack);
    ASSERT_FALSE(frames.empty());
    if (frames[0]->name == function) bytes_per_iteration += leak.bytes_per_iteration;
  }
  if (is("leak_graph")) {
    EXPECT_GT(bytes_per_iteration, 0);  // the loss that the program kept, with its autograd graph
    return;
  }
  EXPECT_EQ(report.leaks.size(), 1U);
  EXPECT_DOUBLE_EQ(bytes_per_iteration, static_cast<double>(truth("leaked_bytes")) /
                                            static_cast<double>(truth("iterations")));
}

INSTANTIATE_TEST_SUITE_P(Training, RecordedProgramTest, testing::ValuesIn(read_true_sizes()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace ashlar
