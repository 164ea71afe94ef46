// SPDX-License-Identifier: Apache-2.0
//
// The interface of `ashlar annotate`: its numbers, the source that it shows, and its errors. The
// recorded program is benchmarks/gpu/recordings/programs.py, as /srv/jobs/train/train.py.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "cli/cli_json.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTransformer = ASHLAR_GOLDEN_FOLDER "/recordings/transformer.pickle.xz";
constexpr const char* kRecordedProgram =
    ASHLAR_GOLDEN_FOLDER "/../../benchmarks/gpu/recordings/programs.py";

// A folder with the recorded program.
class CliAnnotateSourceTest : public testing::Test {
 protected:
  CliAnnotateSourceTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::filesystem::create_directory(folder_ / "train");
    std::filesystem::copy_file(kRecordedProgram, folder_ / "train/train.py");
  }
  ~CliAnnotateSourceTest() override { std::filesystem::remove_all(folder_); }

  static Json line_of(const Json& answer, int64_t number) {
    for (const Json& line : answer["files"][0]["lines"]) {
      if (line["line"] == number) return line;
    }
    ADD_FAILURE() << "no line " << number;
    return {};
  }

  std::filesystem::path folder_;
};

TEST_F(CliAnnotateSourceTest, JsonHasBytesAndTextOfLines) {
  const Json answer = run_json({"annotate", kTransformer, "--source", folder_.string()});
  ASSERT_EQ(answer["files"].size(), 1U);
  const Json& file = answer["files"][0];
  EXPECT_EQ(file["path"], "/srv/jobs/train/train.py");
  EXPECT_EQ(file["source"], (folder_ / "train/train.py").string());
  const Json query = line_of(answer, 36);
  EXPECT_EQ(query["function"], "forward");
  EXPECT_THAT(query["text"].get<std::string>(), HasSubstr("q, k, v = self.qkv(x)"));
  // Three layers: weights and biases are made elsewhere; this line makes q, k and v of each layer,
  // 8 * 96 * 768 floats, among others.
  EXPECT_GE(query["bytes_at_peak"], 3 * 8 * 96 * 768 * 4);
  EXPECT_EQ(query["bytes_at_peak_with_calls"], query["bytes_at_peak"]) << "it calls libraries only";
  size_t by_category = 0;
  for (const Json& bytes : query["categories"]) by_category += bytes.get<size_t>();
  EXPECT_EQ(by_category, query["bytes_at_peak"]);
  const Json loss = line_of(answer, 141);
  EXPECT_EQ(loss["bytes_at_peak"], 0);
  EXPECT_GT(loss["bytes_at_peak_with_calls"], query["bytes_at_peak"]) << "it calls the model";
}

TEST_F(CliAnnotateSourceTest, TextShowsLinesInTheirContext) {
  const CliOutcome outcome = run_cli(
      {.arguments = {"annotate", kTransformer, "--source", ".", "--top", "1", "--context", "1"},
       .folder = folder_.string()});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("  Source: ./train/train.py\n"),
                                 HasSubstr(" 35          batch, length, width = x.shape\n"),
                                 HasSubstr(" 36          q, k, v = self.qkv(x).view("),
                                 HasSubstr(" 37          scores = "), Not(HasSubstr(" 34 ")),
                                 Not(HasSubstr("make_tokens"))));
}

TEST_F(CliAnnotateSourceTest, ReadsNoSourceWithoutOption) {
  const CliOutcome outcome = run_cli({.arguments = {"annotate", kTransformer, "--top", "1"},
                                      .folder = (folder_ / "train").string()});
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("36  forward\n"), HasSubstr("--source DIR"), Not(HasSubstr("q, k"))));
  const Json answer = run_json({"annotate", kTransformer});
  EXPECT_TRUE(answer["files"][0]["source"].is_null());
  EXPECT_TRUE(line_of(answer, 36)["text"].is_null());
}

TEST_F(CliAnnotateSourceTest, ReportsWhySourceIsMissing) {
  std::ofstream(folder_ / "train/train.py", std::ios::trunc) << "import torch\n";
  const CliOutcome outcome =
      run_cli({.arguments = {"annotate", kTransformer, "--source", folder_.string()}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("No source: "), HasSubstr("is another version"),
                                 HasSubstr("36  forward\n")));
}

// Returns the path of a recording of one allocation of 1 MiB, whose stack consists of `frame`.
std::string one_allocation(const std::filesystem::path& folder, const std::string& frame) {
  std::ofstream(folder / "run.json")
      << R"({"segments": [], "device_traces": [[)"
      << R"({"action": "segment_alloc", "addr": 1048576, "size": 2097152, "stream": 0},)"
      << R"({"action": "alloc", "addr": 1048576, "size": 1048576, "stream": 0, "frames": [)"
      << frame << "]}]]}";
  return folder / "run.json";
}

TEST_F(CliAnnotateSourceTest, ShowsLinesWithoutNumberBesideSource) {
  const std::string run = one_allocation(
      folder_, R"({"name": "kernel", "filename": "/srv/jobs/train/train.py", "line": 0})");
  const CliOutcome outcome =
      run_cli({.arguments = {"annotate", run, "--source", folder_.string()}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("  Source: "), ContainsRegex("1\\.00 MiB .* \\?  kernel\n"),
                    Not(HasSubstr("SPDX"))));
}

TEST_F(CliAnnotateSourceTest, ReportsThatAllStacksAreOfLibraries) {
  const std::string run = one_allocation(
      folder_, R"({"name": "f", "filename": "/x/site-packages/lib/a.py", "line": 3})");
  EXPECT_THAT(run_cli({.arguments = {"annotate", run}}).out,
              AllOf(HasSubstr("No stack has a line of your code: all are of libraries.\n"),
                    Not(HasSubstr("record with stacks"))));
}

TEST(CliAnnotateTest, RejectsSourceThatIsNotFolder) {
  for (const char* command : {"annotate", "view"}) {
    const CliOutcome outcome =
        run_cli({.arguments = {command, kTransformer, "--source", "/nowhere"}});
    EXPECT_EQ(outcome.exit_code, kExitInvalidArgument) << command;
    EXPECT_THAT(outcome.err, HasSubstr("--source: /nowhere: No such file or directory"));
  }
}

TEST(CliAnnotateTest, ReportsMissingStacks) {
  const CliOutcome outcome = run_cli({.arguments = {"annotate", trace("graph_pools.1")}});
  EXPECT_EQ(outcome.exit_code, kExitSuccess) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("No stacks were recorded. To see lines, record with stacks:"));
}

}  // namespace
}  // namespace ashlar
