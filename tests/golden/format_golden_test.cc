// SPDX-License-Identifier: Apache-2.0
//
// Reads recorded snapshots with Ashlar and with Python and compares the numbers. Python must also
// read rewritten files as equal to the originals.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "files/json_reader.h"
#include "files/read_snapshot.h"
#include "format/file_sink.h"
#include "format/snapshot_pickle.h"
#include "format/snapshot_writer.h"
#include "unit/format/cpp_style_writer.h"
#include "unit/format/pickle_text.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

// Runs tests/golden/snapshot_summary.py and returns its output.
std::string summary_from_python(const std::string& arguments) {
  const std::string command =
      text(ASHLAR_PYTHON_PATH, " ", ASHLAR_GOLDEN_FOLDER, "/snapshot_summary.py ", arguments);
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
  std::string line(1000, '\0');
  line.resize(std::fread(line.data(), 1, line.size(), output.get()));
  return line;
}

std::string summary_text(const Snapshot& snapshot) {
  size_t total_bytes = 0;
  size_t block_count = 0;
  size_t requested_bytes = 0;
  for (const SnapshotSegment& segment : snapshot.segments) {
    total_bytes += segment.total_bytes;
    block_count += segment.blocks.size();
    for (const SnapshotBlock& block : segment.blocks) requested_bytes += block.requested_bytes;
  }
  size_t entry_count = 0;
  size_t bytes = 0;
  uint64_t addresses = 0;
  uint64_t times = 0;
  size_t frame_count = 0;
  for (const std::vector<TraceEntry>& trace : snapshot.device_traces) {
    entry_count += trace.size();
    for (const TraceEntry& entry : trace) {
      bytes += entry.bytes;
      if (entry.action != TraceAction::kOom) addresses += entry.address.value();
      times += static_cast<uint64_t>(entry.time_us);
      frame_count += snapshot.tables.stacks[entry.stack.value()].frames.size();
    }
  }
  return text(snapshot.segments.size(), " ", total_bytes, " ", block_count, " ", requested_bytes,
              " ", entry_count, " ", bytes, " ", addresses, " ", times, " ", frame_count, " ",
              snapshot.annotations.size(), "\n");
}

std::vector<std::string> recorded_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(ASHLAR_GOLDEN_FOLDER "/traces")) {
    if (entry.path().extension() == ".xz") files.push_back(entry.path().string());
  }
  EXPECT_GE(files.size(), 8u);
  return files;
}

constexpr size_t kMaxEntriesForJson = 30'000;

class TemporaryFile {
 public:
  TemporaryFile()
      : path_(fs::temp_directory_path() / text("ashlar_format_", ::getpid(), ".pickle")) {}
  ~TemporaryFile() { fs::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(RecordedSnapshots, HaveTheNumbersThatPythonReads) {
  for (const std::string& file : recorded_files()) {
    const Result<Snapshot> snapshot = read_snapshot(file);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
    EXPECT_EQ(summary_text(*snapshot), summary_from_python(file)) << file;
  }
}

TEST(RecordedSnapshots, AreEqualForPythonAfterRewriting) {
  const TemporaryFile ours;
  for (const std::string& file : recorded_files()) {
    const Result<Snapshot> snapshot = read_snapshot(file);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
    Result<FileSink> sink = FileSink::open(ours.path());
    ASSERT_TRUE(sink.ok()) << sink.status().message();
    ASSERT_TRUE(write_snapshot_pickle(*snapshot, *sink).ok());
    ASSERT_TRUE(sink->close().ok());
    EXPECT_EQ(summary_from_python(file + " " + ours.path()), "equal\n") << file;
  }
}

TEST(RecordedSnapshots, RoundTripThroughEveryFormat) {
  for (const std::string& file : recorded_files()) {
    const Result<Snapshot> snapshot = read_snapshot(file);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();

    StringSink bytes;
    ASSERT_TRUE(write_snapshot_pickle(*snapshot, bytes).ok());
    MemorySource pickle(bytes.text);
    const Result<Snapshot> from_pickle = read_snapshot_pickle(pickle);
    EXPECT_TRUE(from_pickle.ok() && *from_pickle == *snapshot) << file;

    StringSink cpp_bytes;
    CppStyleWriter writer(cpp_bytes);
    write_snapshot(*snapshot, writer);
    ASSERT_TRUE(writer.finish().ok());
    MemorySource cpp_pickle(cpp_bytes.text);
    const Result<Snapshot> from_cpp = read_snapshot_pickle(cpp_pickle);
    EXPECT_TRUE(from_cpp.ok() && *from_cpp == *snapshot) << file;

    // JSON is slow in sanitizer builds, so only smaller files are tested.
    if (snapshot->device_traces[0].size() > kMaxEntriesForJson) continue;
    StringSink json_bytes;
    ASSERT_TRUE(write_snapshot_json(*snapshot, json_bytes).ok());
    MemorySource json(json_bytes.text);
    const Result<Snapshot> from_json = read_snapshot_json(json);
    EXPECT_TRUE(from_json.ok() && *from_json == *snapshot) << file;
  }
}

// The trace is a pickle of 376 MB, which is too large for the repository.
TEST(RecordedSnapshots, ReadTheLongestTraceIfAvailable) {
  constexpr std::string_view kName = "shared/traces/llm_generate_long.1.pickle.xz";
  fs::path file = fs::path(ASHLAR_SOURCE_DIR).parent_path() / kName;
  if (!fs::exists(file)) file = fs::path(ASHLAR_SOURCE_DIR).parent_path().parent_path() / kName;
  if (!fs::exists(file)) GTEST_SKIP() << kName << " is not available";
#ifndef NDEBUG
  GTEST_SKIP() << "too slow in this build; the release preset runs it";
#endif
  const Result<Snapshot> snapshot = read_snapshot(file.string());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->segments.size(), 72u);
  ASSERT_EQ(snapshot->device_traces.at(0).size(), 3'000'000u);
  size_t bytes = 0;
  for (const TraceEntry& entry : snapshot->device_traces[0]) bytes += entry.bytes;
  EXPECT_EQ(bytes, 2'386'108'543'964u);  // computed by Python
  EXPECT_EQ(snapshot->tables.stacks.size(), 1u + 58u);
}

}  // namespace
}  // namespace ashlar
