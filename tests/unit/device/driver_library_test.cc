// SPDX-License-Identifier: Apache-2.0
//
// Tests loading a driver by several names, and the reasons that are reported for failures. System
// libraries and temporary files serve as drivers.
#include "device/driver_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kPresent = "libc.so.6";
constexpr const char* kMissing = "libashlar_no_such_driver.so.1";

// A temporary file that is not a shared object.
class NotALibrary {
 public:
  NotALibrary() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = (directory_ / "libbroken.so").string();
    std::ofstream(path_) << "this is not an ELF file, however long it may be\n";
  }
  ~NotALibrary() { std::filesystem::remove_all(directory_); }
  const char* path() const { return path_.c_str(); }

 private:
  std::filesystem::path directory_;
  std::string path_;
};

TEST(DriverLibraryTest, OpensTheFirstNameThatLoads) {
  const char* const names[] = {kMissing, kPresent};
  const Result<DriverLibrary> library = DriverLibrary::open(names);
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  EXPECT_EQ(library->name(), kPresent);
}

TEST(DriverLibraryTest, ReportsTheLoadersReasonForAMissingLibrary) {
  const char* const names[] = {kMissing};
  const Result<DriverLibrary> library = DriverLibrary::open(names);
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().kind(), StatusKind::kUnsupported);
  EXPECT_THAT(library.status().message(),
              AllOf(HasSubstr(kMissing), HasSubstr("cannot open shared object file")));
}

TEST(DriverLibraryTest, ReportsABrokenLibraryBeforeMissingOnes) {
  const NotALibrary broken;
  const char* const names[] = {kMissing, broken.path(), kMissing};
  const Result<DriverLibrary> library = DriverLibrary::open(names);
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(library.status().message(), HasSubstr(broken.path()));
}

TEST(DriverLibraryTest, MoveTransfersTheLibrary) {
  const char* const names[] = {kPresent};
  Result<DriverLibrary> library = DriverLibrary::open(names);
  ASSERT_TRUE(library.ok());
  DriverLibrary first = *std::move(library);
  const DriverLibrary second = std::move(first);
  EXPECT_EQ(second.name(), kPresent);
}

}  // namespace
}  // namespace ashlar
