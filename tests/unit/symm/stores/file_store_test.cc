// SPDX-License-Identifier: Apache-2.0
//
// The file store: the files it leaves, clock differences, and foreign files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "ashlar/store.h"
#include "ashlar/unique_fd.h"
#include "mp/child_process.h"
#include "unit/symm/stores/store_fixtures.h"
#include "unit/symm/stores/wall_clock.h"

namespace ashlar::symm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

class FileStoreTest : public ::testing::Test {
 protected:
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& each : fs::recursive_directory_iterator(folder_.path())) {
      names.push_back(fs::relative(each.path(), folder_.path()).string());
    }
    return names;
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(fs::path(folder_.path()) / name) << bytes;
  }
  Status read_status(const std::string& key) {
    return store_->try_get(Keys{key}, long_deadline()).status();
  }

  TemporaryFolder folder_;
  std::shared_ptr<Store> store_ = *try_open_file_store(folder_.path());
};

TEST_F(FileStoreTest, LeavesOnlyItsLockFile) {
  ASSERT_TRUE(store_->set("a/b/c", "1", kNoExpiry, long_deadline()).ok());
  ASSERT_TRUE(store_->set("a/d", "1", kNoExpiry, long_deadline()).ok());
  ASSERT_TRUE(store_->add("count", 1, kNoExpiry, long_deadline()).ok());
  for (const char* key : {"a/b/c", "a/d", "count"})
    ASSERT_TRUE(*store_->erase(key, long_deadline()));
  EXPECT_THAT(left(), ElementsAre("lock"));
}

TEST_F(FileStoreTest, RemovesExpiredRecordsOnOpen) {
  ASSERT_TRUE(store_->set("dead/group/key", "1", milliseconds(1), long_deadline()).ok());
  std::this_thread::sleep_for(milliseconds(10));
  const std::shared_ptr<Store> another = *try_open_file_store(folder_.path());
  EXPECT_THAT(left(), ElementsAre("lock"));
}

// --- machines whose clocks differ

TEST_F(FileStoreTest, ClockAheadDoesNotExpireRecordsOfOthers) {
  ASSERT_TRUE(store_->set("key", "1", std::chrono::minutes(1), long_deadline()).ok());
  ASSERT_TRUE(store_->add("count", 5, std::chrono::minutes(1), long_deadline()).ok());
  const auto before = std::chrono::system_clock::now();
  const WallClockAhead ahead(std::chrono::hours(1));
  ASSERT_GE(std::chrono::system_clock::now() - before, std::chrono::hours(1));
  const std::shared_ptr<Store> there = *try_open_file_store(folder_.path());
  EXPECT_TRUE((*there->try_get(Keys{"key"}, long_deadline()))[0]);
  EXPECT_EQ(*there->add("count", 1, std::chrono::minutes(1), long_deadline()), 6);
  EXPECT_TRUE(*there->erase("key", long_deadline()));
}

TEST_F(FileStoreTest, RecordsOfAMachineWithClockAheadExpireInTime) {
  {
    const WallClockAhead ahead(std::chrono::hours(1));
    ASSERT_TRUE(store_->set("key", "1", milliseconds(20), long_deadline()).ok());
  }
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_FALSE((*store_->try_get(Keys{"key"}, long_deadline()))[0]);
}

// Any user with write access can set modification times, within the limits of the file system.
TEST_F(FileStoreTest, HandlesExtremeModificationTimes) {
  const std::string path = folder_.path() + "/key.v";
  const auto exists_with_mtime = [&](time_t seconds) {
    EXPECT_TRUE(store_->set("key", "1", std::chrono::minutes(1), long_deadline()).ok());
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return (*store_->try_get(Keys{"key"}, long_deadline()))[0].has_value();
  };
  EXPECT_FALSE(exists_with_mtime(-9'300'000'000));
  EXPECT_TRUE(exists_with_mtime(15'000'000'000));
}

TEST_F(FileStoreTest, RejectsForeignFiles) {
  write("short.v", "ashstor2");
  write("other.v", std::string(64, 'x'));
  write("cut.v", std::string("ashstor2\0\0\0\0\0\0\0\0\xff\0\0\0abc", 23));
  write("more.v", std::string("ashstor2\0\0\0\0\0\0\0\0\1\0\0\0abc", 23));
  fs::create_symlink("/etc/passwd", fs::path(folder_.path()) / "link.v");
  fs::create_directory(fs::path(folder_.path()) / "folder.v");
  ASSERT_EQ(::mkfifo((fs::path(folder_.path()) / "fifo.v").c_str(), 0600), 0);
  for (const char* key : {"short", "other", "cut", "more", "folder", "fifo"}) {
    EXPECT_EQ(read_status(key).kind(), StatusKind::kFormat) << key;
  }
  EXPECT_FALSE(read_status("link").ok());
  EXPECT_TRUE(store_->set("short", "good now", kNoExpiry, long_deadline()).ok());
  EXPECT_EQ(*store_->get("short", long_deadline()), "good now");
}

TEST_F(FileStoreTest, RejectsOversizedFilesWithoutReading) {
  write("huge.v", "ashstor2");
  fs::resize_file(fs::path(folder_.path()) / "huge.v", uint64_t{1} << 40);
  EXPECT_EQ(read_status("huge").kind(), StatusKind::kFormat);
}

TEST_F(FileStoreTest, ReportsALockHeldByAnotherProcess) {
  const UniqueFd held(::open((fs::path(folder_.path()) / "lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const Status timeout_status =
      store_->set("key", "1", kNoExpiry, Deadline::after(milliseconds(20)));
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(), HasSubstr("another process held the lock"));
}

TEST_F(FileStoreTest, OverwritesThePartialFileOfAKilledWriter) {
  write("being_written", "half a rec");
  ASSERT_TRUE(store_->set("key", "whole", kNoExpiry, long_deadline()).ok());
  EXPECT_EQ(*store_->get("key", long_deadline()), "whole");
}

TEST_F(FileStoreTest, ReportsWhyADirectoryCannotBeUsed) {
  write("file", "");
  const Status refused = try_open_file_store(folder_.path() + "/file").status();
  EXPECT_EQ(refused.kind(), StatusKind::kDeviceFault);
  EXPECT_THAT(refused.message(), HasSubstr("Not a directory"));
  EXPECT_FALSE(try_open_file_store(folder_.path() + "/no/such").ok());
}

// A child that is forked while another thread holds the lock inherits the descriptor of the lock
// file, but must not keep the lock.
TEST_F(FileStoreTest, ForkedChildrenDoNotHoldTheLock) {
  std::atomic<bool> is_over{false};
  std::thread writing([&] {
    while (!is_over) (void)store_->set("key", "value", kNoExpiry, long_deadline()).ok();
  });
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 20; ++i) {
    children.push_back(std::make_unique<ChildProcess>([](int) { return ::pause(); }));
  }
  is_over = true;
  writing.join();
  EXPECT_TRUE(store_->set("key", "value", kNoExpiry, long_deadline()).ok());
  for (const auto& child : children) child->kill();
}

TEST(StoreLifetimes, LongerThanTheClockRangeNeverExpire) {
  const TemporaryFolder folder;
  for (const std::shared_ptr<Store>& store :
       {make_memory_store(), *try_open_file_store(folder.path())}) {
    for (const milliseconds life :
         {milliseconds::max(), milliseconds(std::chrono::hours(2'600'000))}) {
      ASSERT_TRUE(store->set("key", "value", life, long_deadline()).ok());
      const std::string keys[] = {"key"};
      EXPECT_TRUE((*store->try_get(keys, long_deadline()))[0]);
    }
  }
}

}  // namespace
}  // namespace ashlar::symm
