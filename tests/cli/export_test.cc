// SPDX-License-Identifier: Apache-2.0
//
// The interface of `ashlar export`. Every test runs the real tool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "cli/cli_json.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ExportCommand : public testing::Test {
 protected:
  ExportCommand() { fs::create_directory(folder_); }
  ~ExportCommand() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string content(const std::string& name) const {
    std::ostringstream all;
    all << std::ifstream(path(name), std::ios::binary).rdbuf();
    return all.str();
  }
  void make(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

 private:
  fs::path folder_ = fs::temp_directory_path() / ("ashlar_export_" + std::to_string(::getpid()));
};

TEST_F(ExportCommand, PickleRoundTrips) {
  ASSERT_EQ(run_cli({{"export", trace("oom.1"), "--to", "pickle", "-o", path("a")}}).exit_code, 0);
  ASSERT_EQ(run_cli({{"export", path("a"), "--to", "pickle", "-o", path("b")}}).exit_code, 0);
  EXPECT_THAT(content("a"), StartsWith("\x80\x04"));
  EXPECT_TRUE(content("a") == content("b"));
}

TEST_F(ExportCommand, JsonRoundTripsThroughStandardOutput) {
  const CliOutcome json = run_cli({{"export", trace("oom.1"), "--to", "json", "-o", "-"}});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const Json parsed = Json::parse(json.out);
  EXPECT_EQ(parsed["device_traces"][0].size(), 813u);
  EXPECT_EQ(parsed["device_traces"][0][480]["action"], "oom");
  make("a.json", json.out);
  const CliOutcome again = run_cli({{"export", path("a.json"), "--to", "json", "-o", "-"}});
  EXPECT_TRUE(again.out == json.out);
}

TEST_F(ExportCommand, PerfettoHasCountersAndOom) {
  const CliOutcome perfetto = run_cli({{"export", trace("oom.1"), "--to", "perfetto", "-o", "-"}});
  ASSERT_EQ(perfetto.exit_code, 0) << perfetto.err;
  const Json parsed = Json::parse(perfetto.out);
  size_t oom_count = 0;
  int64_t peak_reserved = 0;
  for (const Json& event : parsed["traceEvents"]) {
    if (event["name"] == "OOM") ++oom_count;
    if (event["ph"] == "C") {
      peak_reserved = std::max(peak_reserved, event["args"].value("reserved", int64_t{0}));
    }
  }
  EXPECT_EQ(oom_count, 1u);
  EXPECT_GT(peak_reserved, 2'900'000'000);  // the run was limited to 2.80 GiB
}

TEST_F(ExportCommand, CsvHasOneRowPerEntry) {
  const CliOutcome csv = run_cli({{"export", trace("oom.1"), "--to", "csv", "-o", "-"}});
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 814);
  EXPECT_THAT(csv.out, HasSubstr(",oom,145686528000,27032576,0,"));
}

TEST_F(ExportCommand, ReportsPositionInUnreadableInput) {
  make("hostile",
       "\x80\x02"
       "cos\nsystem\n)R.");
  const CliOutcome hostile = run_cli({{"export", path("hostile"), "--to", "csv", "-o", "-"}});
  EXPECT_EQ(hostile.exit_code, 3);
  EXPECT_THAT(hostile.err, HasSubstr("hostile: pickle, byte 2: GLOBAL: importing and calling"));
  EXPECT_EQ(hostile.out, "");

  const CliOutcome missing = run_cli({{"export", path("missing"), "--to", "csv", "-o", "-"}});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("missing: cannot be opened: No such file"));

  make("text", "hello");
  const CliOutcome text = run_cli({{"export", path("text"), "--to", "csv", "-o", "-"}});
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_THAT(text.err, HasSubstr("neither a pickle nor JSON"));
}

TEST_F(ExportCommand, RejectsInvalidUsage) {
  EXPECT_EQ(run_cli({{"export", trace("oom.1")}}).exit_code, 2);
  EXPECT_EQ(run_cli({{"export", trace("oom.1"), "--to", "word", "-o", "-"}}).exit_code, 2);
  EXPECT_EQ(run_cli({{"export", "--to", "csv", "-o", "-"}}).exit_code, 2);
}

TEST_F(ExportCommand, ReportsUnwritableOutput) {
  const CliOutcome outcome =
      run_cli({{"export", trace("oom.1"), "--to", "csv", "-o", "/no/such/folder/x"}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/no/such/folder/x: No such file or directory"));
  const CliOutcome full = run_cli({{"export", trace("oom.1"), "--to", "csv", "-o", "/dev/full"}});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.err, HasSubstr("/dev/full: No space left"));
}

}  // namespace
}  // namespace ashlar
