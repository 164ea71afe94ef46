// SPDX-License-Identifier: Apache-2.0
//
// Tests the file store: the files that it leaves, clock differences, foreign files, and other
// users.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
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
using ::testing::AllOf;
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
  std::string path_of(const std::string& name) const { return folder_.path() + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_of(name)) << bytes;
  }
  static std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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

TEST_F(FileStoreTest, TimeoutNamesTheProcessThatHoldsTheLock) {
  const std::string lock = path_of("lock");
  ChildProcess holder([&](int socket_fd) {
    const UniqueFd held(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
    if (::flock(held.get(), LOCK_EX) != 0 || !notify(socket_fd)) return 1;
    return ::pause();
  });
  ASSERT_TRUE(wait_for_notification(holder.socket_fd()));
  const Status timeout_status =
      store_->set("key", "1", kNoExpiry, Deadline::after(milliseconds(20)));
  EXPECT_EQ(timeout_status.kind(), StatusKind::kTimeout);
  EXPECT_THAT(timeout_status.message(),
              AllOf(HasSubstr("was locked until the deadline by process " +
                              std::to_string(holder.pid()) + " ("),
                    HasSubstr("check whether it is suspended")));
}

TEST_F(FileStoreTest, OpensWhileTheLockIsHeld) {
  ASSERT_TRUE(store_->set("key", "1", kNoExpiry, long_deadline()).ok());
  const UniqueFd held(::open(path_of("lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  const Result<std::shared_ptr<Store>> another = try_open_file_store(folder_.path());
  ASSERT_TRUE(another.ok()) << another.status().to_string();
  EXPECT_EQ(*(*another)->get("key", long_deadline()), "1");
}

// --- other users

TEST_F(FileStoreTest, OtherUsersCannotOpenTheLockFile) {
  const auto lock_permissions = [this] {
    return fs::status(path_of("lock")).permissions() & fs::perms::all;
  };
  const fs::perms owner_only = fs::perms::owner_read | fs::perms::owner_write;
  EXPECT_EQ(lock_permissions(), owner_only);
  fs::permissions(path_of("lock"), fs::perms::all);
  ASSERT_TRUE(store_->set("key", "1", kNoExpiry, long_deadline()).ok());
  EXPECT_EQ(lock_permissions(), owner_only);
}

TEST_F(FileStoreTest, RejectsFoldersThatOthersCanWrite) {
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(folder_.path(), fs::perms::owner_all | others);
    const Status refused = try_open_file_store(folder_.path()).status();
    EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("chmod go-w " + folder_.path()),
                                         HasSubstr("FileStoreOptions::allow_shared_folder")));
    EXPECT_TRUE(try_open_file_store(folder_.path(), {.allow_shared_folder = true}).ok());
  }
  fs::permissions(folder_.path(), fs::perms::owner_all | fs::perms::group_read);
  EXPECT_TRUE(try_open_file_store(folder_.path()).ok());
}

TEST_F(FileStoreTest, RejectsFoldersOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can create a folder of another user";
  const uid_t other_user = 65534;
  ASSERT_EQ(::chown(folder_.path().c_str(), other_user, other_user), 0);
  const Status refused = try_open_file_store(folder_.path()).status();
  EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("belongs to user 65534"), HasSubstr("use a folder of your own"),
                    HasSubstr("FileStoreOptions::allow_shared_folder")));
  EXPECT_TRUE(try_open_file_store(folder_.path(), {.allow_shared_folder = true}).ok());
}

TEST_F(FileStoreTest, ReportsALockFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  fs::permissions(folder_.path(), fs::perms::all);
  ChildProcess other_user([&](int) {
    if (::setegid(65534) != 0 || ::seteuid(65534) != 0) return 1;
    const Status refused =
        try_open_file_store(folder_.path(), {.allow_shared_folder = true}).status();
    const bool names_owner = refused.message().find("belongs to user 0") != std::string::npos;
    return refused.kind() == StatusKind::kInvalidArgument && names_owner ? 0 : 2;
  });
  EXPECT_EQ(other_user.wait(), 0);
}

TEST_F(FileStoreTest, RejectsALinkAsFolder) {
  const TemporaryFolder links;
  const std::string link = links.path() + "/link";
  fs::create_directory_symlink(folder_.path(), link);
  for (const std::string& path : {link, link + "/"}) {
    const Status refused = try_open_file_store(path, {.allow_shared_folder = true}).status();
    EXPECT_EQ(refused.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("is a symbolic link"),
                                         HasSubstr("pass the path of the folder itself")));
  }
}

TEST_F(FileStoreTest, FollowsNoLinkBelowTheFolder) {
  const TemporaryFolder elsewhere;
  const std::shared_ptr<Store> outside = *try_open_file_store(elsewhere.path());
  ASSERT_TRUE(outside->set("key", "outside", kNoExpiry, long_deadline()).ok());
  ASSERT_TRUE(outside->set("expired", "outside", milliseconds(1), long_deadline()).ok());
  std::this_thread::sleep_for(milliseconds(10));
  fs::create_directory_symlink(elsewhere.path(), path_of("group.d"));

  const Status set = store_->set("group/key", "replaced", kNoExpiry, long_deadline());
  EXPECT_THAT(set.message(), AllOf(HasSubstr("symbolic link"), HasSubstr("remove it")));
  EXPECT_FALSE(store_->set("group/inner/key", "1", kNoExpiry, long_deadline()).ok());
  EXPECT_FALSE(read_status("group/key").ok());
  EXPECT_FALSE(store_->erase("group/key", long_deadline()).ok());
  ASSERT_TRUE(try_open_file_store(folder_.path()).ok());  // removes expired records
  EXPECT_EQ(*outside->get("key", long_deadline()), "outside");
  EXPECT_FALSE(fs::exists(elsewhere.path() + "/inner.d"));
  EXPECT_TRUE(fs::exists(elsewhere.path() + "/expired.v"));
}

TEST_F(FileStoreTest, ReplacesAForeignTemporaryFile) {
  const TemporaryFolder elsewhere;
  const std::string target = elsewhere.path() + "/target";
  std::ofstream(target) << "precious";
  const std::string temporary = path_of("being_written");
  fs::create_symlink(target, temporary);
  EXPECT_TRUE(store_->set("key", "1", kNoExpiry, long_deadline()).ok());
  fs::create_hard_link(target, temporary);
  EXPECT_TRUE(store_->set("key", "2", kNoExpiry, long_deadline()).ok());
  ASSERT_EQ(::mkfifo(temporary.c_str(), 0600), 0);
  EXPECT_TRUE(store_->set("key", "3", kNoExpiry, long_deadline()).ok());
  EXPECT_EQ(*store_->get("key", long_deadline()), "3");
  EXPECT_EQ(content_of(target), "precious");
}

// Makes openat2(2) fail in this process, as the seccomp filters of some container runtimes do.
bool disable_openat2() {
#if defined(SYS_openat2)
  sock_filter instructions[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(instructions)), instructions};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
  return true;
#endif
}

TEST_F(FileStoreTest, WorksWithoutOpenat2) {
  ASSERT_TRUE(store_->set("group/key", "1", kNoExpiry, long_deadline()).ok());
  ChildProcess child([&](int) {
    if (!disable_openat2()) return 1;
    const Result<std::shared_ptr<Store>> store = try_open_file_store(folder_.path());
    if (!store.ok()) return 2;
    const Result<std::string> before = (*store)->get("group/key", long_deadline());
    if (!before.ok() || *before != "1") return 3;
    if (!(*store)->set("group/inner/key", "2", kNoExpiry, long_deadline()).ok()) return 4;
    const Result<bool> erased = (*store)->erase("group/key", long_deadline());
    return erased.ok() && *erased ? 0 : 5;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(*store_->get("group/inner/key", long_deadline()), "2");
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
