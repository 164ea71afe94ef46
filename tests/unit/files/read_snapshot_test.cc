// SPDX-License-Identifier: Apache-2.0
//
// Small files cannot cause unbounded work, and named pipes do not block.
#include "files/read_snapshot.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "unit/files/hostile_files.h"

namespace ashlar {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class ReadSnapshot : public ::testing::Test {
 protected:
  ReadSnapshot() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~ReadSnapshot() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(ReadSnapshot, LimitsTheWorkThatASmallFileCauses) {
  for (const HostileFile& file : hostile_files()) {
    SCOPED_TRACE(file.name);
    EXPECT_LE(file.bytes.size(), 10u << 10);
    const std::string path = folder_ / file.name;
    std::ofstream(path, std::ios::binary) << file.bytes;
    const Result<Snapshot> by_path = read_snapshot(path);
    const Result<Snapshot> by_source =
        read_snapshot("source", std::make_unique<MemorySource>(file.bytes));
    for (const Status& status : {by_path.status(), by_source.status()}) {
      EXPECT_EQ(status.ok(), !file.is_rejected) << status.message();
      if (!file.is_rejected) continue;
      EXPECT_THAT(status.message(), AnyOf(HasSubstr("the values need more than"),
                                          HasSubstr("shared text of the file expands to more")));
    }
  }
}

TEST_F(ReadSnapshot, CancelsAPipeThatNoProgramWrites) {
  const std::string path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ReadOptions options;
  int polled = 0;
  options.input.on_progress = [&](double) { return ++polled <= 1; };
  const Result<Snapshot> snapshot = read_snapshot(path, options);
  EXPECT_TRUE(snapshot.status().is(StatusKind::kTimeout)) << snapshot.status().message();
}

TEST_F(ReadSnapshot, ReadsAPipe) {
  const std::string path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "{\"segments\": [], \"device_traces\": []}"; });
  const Result<Snapshot> snapshot = read_snapshot(path);
  writer.join();
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
}

TEST_F(ReadSnapshot, CancelsASourceInMemory) {
  ReadOptions options;
  options.input.on_progress = [](double) { return false; };
  const Result<Snapshot> snapshot =
      read_snapshot("bytes", std::make_unique<MemorySource>("{\"segments\": []}"), options);
  EXPECT_TRUE(snapshot.status().is(StatusKind::kTimeout)) << snapshot.status().message();
}

}  // namespace
}  // namespace ashlar
