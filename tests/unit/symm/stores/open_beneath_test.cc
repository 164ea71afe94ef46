// SPDX-License-Identifier: Apache-2.0
//
// Tests opening files below a directory, with openat2(2) and with one openat(2) per component.
#include "symm/stores/open_beneath.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

namespace fs = std::filesystem;

using OpenFunction = UniqueFd (*)(int folder_fd, const std::string& path, OpenMode mode);

// Creates the directory "inner" in a temporary folder. It contains a file, a directory, a link to
// each of these two, and a link to its parent.
class OpenBeneathTest : public ::testing::TestWithParam<OpenFunction> {
 protected:
  void SetUp() override {
    const fs::path inner = fs::path(folder_.path()) / "inner";
    fs::create_directories(inner / "directory");
    for (const char* file : {"outside", "inner/file", "inner/directory/file"}) {
      ASSERT_TRUE(open_at(file, {O_WRONLY | O_CREAT, 0600}, AT_FDCWD, folder_.path()).valid());
    }
    fs::create_symlink("file", inner / "file_link");
    fs::create_symlink("directory", inner / "directory_link");
    fs::create_symlink("..", inner / "parent_link");
    inner_.reset(::open(inner.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(inner_.valid());
  }
  static UniqueFd open_at(const std::string& name, OpenMode mode, int at, const std::string& base) {
    return UniqueFd(
        ::openat(at, (base + "/" + name).c_str(), mode.flags | O_CLOEXEC, mode.permissions));
  }
  // Returns the error of opening `path` for reading; 0 on success.
  int error_of(const std::string& path) const {
    errno = 0;
    return GetParam()(inner_.get(), path, {O_RDONLY}).valid() ? 0 : errno;
  }

  TemporaryFolder folder_;
  UniqueFd inner_;
};

TEST_P(OpenBeneathTest, OpensFilesAndDirectories) {
  for (const char* path : {"file", "directory", "directory/file", "."}) {
    EXPECT_EQ(error_of(path), 0) << path;
  }
  EXPECT_EQ(error_of("missing"), ENOENT);
  EXPECT_EQ(error_of("missing/file"), ENOENT);
  EXPECT_EQ(error_of("file/file"), ENOTDIR);
}

TEST_P(OpenBeneathTest, FollowsNoLink) {
  for (const char* path : {"file_link", "directory_link", "directory_link/file",
                           "parent_link/outside", "parent_link/inner/file"}) {
    EXPECT_EQ(error_of(path), ELOOP) << path;
  }
}

TEST_P(OpenBeneathTest, StaysBelowTheDirectory) {
  for (const std::string& path : {std::string("../outside"), std::string("directory/../../outside"),
                                  folder_.path() + "/inner/file"}) {
    EXPECT_EQ(error_of(path), EXDEV) << path;
  }
}

TEST_P(OpenBeneathTest, CreatesFilesWithPermissions) {
  const UniqueFd made =
      GetParam()(inner_.get(), "directory/new", {O_WRONLY | O_CREAT | O_EXCL, 0600});
  ASSERT_TRUE(made.valid());
  struct stat found {};
  ASSERT_EQ(::fstat(made.get(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  EXPECT_EQ(::fcntl(made.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

INSTANTIATE_TEST_SUITE_P(Both, OpenBeneathTest,
                         ::testing::Values(&open_beneath, &open_by_component),
                         [](const auto& tested) {
                           return tested.param == &open_beneath ? "Openat2" : "ByComponent";
                         });

}  // namespace
}  // namespace ashlar::symm
