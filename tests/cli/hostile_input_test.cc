// SPDX-License-Identifier: Apache-2.0
//
// Commands on input that needs much memory, and on file contents that would control a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/cli_json.h"
#include "unit/files/hostile_files.h"
#include "unit/files/random_recording.h"
#include "unit/format/pickle_text.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kMaxFileBytes = 10'000;
// Limit on the processor time of a command. The wall time also depends on the load of the machine.
constexpr double kMaxCpuMs = 10'000;
constexpr size_t kMaxCpuSeconds = 60;  // ends a command that would take minutes

// Returns every command that reads a recording.
std::vector<std::vector<std::string>> commands_for(const std::string& file) {
  return {
      {"report", file, "--json"},
      {"oom", file, "--json"},
      {"leaks", file, "--json"},
      {"tune", file, "--json"},
      {"tune", file, "--min-capacity", "--json"},
      {"whatif", file, "--drop", "class:activations", "--json"},
      {"whatif", file, "--keep-grads", "--conf", "expandable_segments:True"},
      {"replay", file, "--json"},
      {"annotate", file, "--json"},
      {"diff", file, file, "--json"},
      {"gate", file, file},
      {"export", file, "--to", "json", "-o", "/dev/null"},
      {"export", file, "--to", "perfetto", "-o", "/dev/null"},
      {"export", file, "--to", "csv", "-o", "/dev/null"},
      {"view", file, "-o", "/dev/null"},
  };
}

class CliHostileInputTest : public ::testing::Test {
 protected:
  CliHostileInputTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~CliHostileInputTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  // A sanitizer's own memory counts as resident, so its presence disables the check.
  static void expect_small([[maybe_unused]] const CliOutcome& outcome) {
#if !defined(ASHLAR_TEST_SANITIZED)
    constexpr size_t kMaxResidentBytes = size_t{256} << 20;
    EXPECT_LT(outcome.peak_resident_bytes, kMaxResidentBytes);
#endif
  }

  std::filesystem::path folder_;
};

TEST_F(CliHostileInputTest, RejectsSmallFilesThatNeedMuchMemory) {
  for (const HostileFile& file : hostile_files()) {
    if (!file.is_rejected) continue;
    SCOPED_TRACE(file.name);
    const CliOutcome outcome = run_cli({.arguments = {"report", write(file.name, file.bytes)}});
    EXPECT_EQ(outcome.exit_code, kExitUnreadableInput) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr("for a file of this size"));
    expect_small(outcome);
  }
}

// Parameterized by the index of a file that readers accept.
class CliSmallFileTest : public CliHostileInputTest, public ::testing::WithParamInterface<size_t> {
 public:
  static constexpr size_t kFileCount = 11;
  static std::vector<HostileFile> accepted_files() {
    std::vector<HostileFile> files = hostile_files();
    std::erase_if(files, [](const HostileFile& each) { return each.is_rejected; });
    return files;
  }
};

TEST_P(CliSmallFileTest, IsAnalyzedWithinMemoryAndTimeLimits) {
#if defined(ASHLAR_TEST_SANITIZED)
  GTEST_SKIP() << "SKIPPED: takes minutes with a sanitizer; run preset release";
#endif
  const std::vector<HostileFile> files = accepted_files();
  ASSERT_EQ(files.size(), kFileCount);
  const HostileFile& hostile = files[GetParam()];
  ASSERT_LE(hostile.bytes.size(), kMaxFileBytes) << hostile.name;
  const std::string file = write(hostile.name, hostile.bytes);
  for (const std::vector<std::string>& command : commands_for(file)) {
    SCOPED_TRACE(hostile.name + " " + command[0]);
    const CliOutcome outcome = run_cli({.arguments = command, .max_cpu_seconds = kMaxCpuSeconds});
    EXPECT_EQ(outcome.signal, 0);
    EXPECT_LT(outcome.cpu_ms, kMaxCpuMs);
    EXPECT_NE(outcome.exit_code, kExitUnreadableInput) << outcome.err;
    expect_small(outcome);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, CliSmallFileTest,
                         ::testing::Range(size_t{0}, CliSmallFileTest::kFileCount));

uint64_t number_variable(const char* name, uint64_t fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::strtoull(value, nullptr, 10);
}

// Fuzzes all commands within the limits that hold for any file of this size. ASHLAR_FUZZ_FILES sets
// the number of files, ASHLAR_FUZZ_SEED the first seed.
TEST_F(CliHostileInputTest, RandomSmallFilesStayWithinLimits) {
#if defined(ASHLAR_TEST_SANITIZED)
  GTEST_SKIP() << "SKIPPED: takes minutes with a sanitizer; run preset release";
#endif
  const uint64_t first_seed = number_variable("ASHLAR_FUZZ_SEED", 1);
  const uint64_t file_count = number_variable("ASHLAR_FUZZ_FILES", 4);
  uint64_t readable_count = 0;
  for (uint64_t seed = first_seed; seed < first_seed + file_count; ++seed) {
    const std::string bytes = random_recording(seed);
    ASSERT_LE(bytes.size(), kMaxFileBytes);
    const std::string file = write("random", bytes);
    for (const std::vector<std::string>& command : commands_for(file)) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + command[0]);
      const CliOutcome outcome = run_cli({.arguments = command, .max_cpu_seconds = kMaxCpuSeconds});
      EXPECT_EQ(outcome.signal, 0);
      EXPECT_LT(outcome.cpu_ms, kMaxCpuMs);
      expect_small(outcome);
      const bool is_first = command == commands_for(file).front();
      if (is_first && outcome.exit_code != kExitUnreadableInput) ++readable_count;
    }
  }
  EXPECT_GE(2 * readable_count, file_count) << "most files must be valid";
}

TEST_F(CliHostileInputTest, ReportsThatReadingNeedsMoreMemoryThanAvailable) {
#if defined(ASHLAR_TEST_SANITIZED)
  GTEST_SKIP() << "SKIPPED: a sanitizer reserves more addresses than the limit; run preset release";
#endif
  using namespace pickle;
  std::string entries;
  for (int32_t i = 0; i < 500'000; ++i) {
    entries += dict({{"action", string("alloc")}, {"addr", number(i)}, {"size", number(5)}});
  }
  const std::string file =
      write("large", whole(dict({{"device_traces", list({"](" + entries + "e"})}})));
  for (const char* command : {"report", "leaks", "replay"}) {
    const CliOutcome outcome =
        run_cli({.arguments = {command, file}, .max_address_space_bytes = size_t{96} << 20});
    EXPECT_EQ(outcome.exit_code, kExitUnreadableInput) << command;
    EXPECT_THAT(outcome.err, HasSubstr("reading needs more memory than is available"));
  }
}

TEST_F(CliHostileInputTest, TextOfFilesDoesNotControlTheTerminal) {
  using namespace pickle;
  const std::string title = "a\x1b]0;title\x07\xe2\x80\xae";  // ends in U+202E
  const std::string frame =
      dict({{"name", string(title)}, {"filename", string(title)}, {"line", number(1)}});
  const std::string entry = dict({{"action", string("alloc")},
                                  {"addr", number(4096)},
                                  {"size", number(512)},
                                  {"compile_context", string(title)},
                                  {"frames", list({frame})}});
  const std::string settings = dict({{"roundup_power2_divisions", string(title)}});
  const std::string file = write(
      title,
      whole(dict({{"device_traces", list({list({entry})})}, {"allocator_settings", settings}})));
  const std::vector<std::vector<std::string>> commands = {
      {"report", file},        {"report", file, "--json"},
      {"oom", file},           {"leaks", file},
      {"tune", file},          {"replay", file},
      {"diff", file, file},    {"gate", file, file},
      {"report", file + "/x"}, {"export", file, "--to", "csv", "-o", "-"},
  };
  for (const std::vector<std::string>& command : commands) {
    const CliOutcome outcome = run_cli({.arguments = command});
    for (const std::string& text : {outcome.out, outcome.err}) {
      EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << command[0];
      EXPECT_THAT(text, Not(HasSubstr("\xe2\x80\xae"))) << command[0];
    }
  }
}

}  // namespace
}  // namespace ashlar
