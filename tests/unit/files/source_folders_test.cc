// SPDX-License-Identifier: Apache-2.0
//
// Tests which files are found for recorded paths, and which are refused.
#include "files/source_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ashlar {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kModel =
    "import torch\n\nclass Net:\n    def forward(self, x):\n        pass\n";

class SourceFoldersTest : public testing::Test {
 protected:
  SourceFoldersTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    outer_ = std::filesystem::canonical(pattern);
    project_ = outer_ / "project";
    write("project/net/model.py", kModel);
    EXPECT_TRUE(folders_.add(project_.string()).ok());
  }
  ~SourceFoldersTest() override { std::filesystem::remove_all(outer_); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((outer_ / name).parent_path());
    std::ofstream(outer_ / name) << text;
  }
  // Returns the path of the file that is found relative to outer_, or the error message.
  std::string found(const std::string& path, const std::vector<RecordedLine>& expected = {}) const {
    const Result<SourceText> read = folders_.read(path, expected);
    return read.ok() ? std::filesystem::path(read->path).lexically_relative(outer_).string()
                     : read.status().message();
  }

  std::filesystem::path outer_;    // outside of the folders
  std::filesystem::path project_;  // the folder that is searched
  SourceFolders folders_;
};

TEST_F(SourceFoldersTest, PrefersLongestPathSuffix) {
  write("project/model.py", "other");
  EXPECT_EQ(found("/srv/jobs/net/model.py"), "project/net/model.py");
  EXPECT_EQ(found("net/./model.py"), "project/net/model.py");
  EXPECT_EQ(found("C:\\Users\\me\\net\\model.py"), "project/net/model.py");
  EXPECT_EQ(found("\\\\server\\share/net\\model.py"), "project/net/model.py");
  EXPECT_EQ(found("/srv/jobs/another/project/model.py"), "project/model.py");
  EXPECT_EQ(found("/srv/jobs/net/other.py"), "not found");
}

TEST_F(SourceFoldersTest, ReadsTheLines) {
  write("project/windows.py", "a = 1\r\n\r\nb = 2");
  const Result<SourceText> read = folders_.read("windows.py", {});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->lines, (std::vector<std::string>{"a = 1", "", "b = 2"}));
}

TEST_F(SourceFoldersTest, RootFolderPermitsRecordedPaths) {
  SourceFolders all;
  ASSERT_TRUE(all.add("/").ok());
  const std::string path = (project_ / "net/model.py").string();
  const Result<SourceText> read = all.read(path, {});
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->path, path);
}

TEST_F(SourceFoldersTest, ReadsNothingWithoutFolders) {
  EXPECT_FALSE(SourceFolders().read((project_ / "net/model.py").string(), {}).ok());
}

TEST_F(SourceFoldersTest, RejectsPathsOutsideFolder) {
  write("secret.py", "password = 1");
  write("project/net/x.py", "x");
  std::filesystem::create_symlink(outer_ / "secret.py", project_ / "link.py");
  std::filesystem::create_directory_symlink(outer_, project_ / "up");
  std::filesystem::create_symlink(project_ / "net/x.py", project_ / "inner.py");
  EXPECT_EQ(found("../secret.py"), "not found");
  EXPECT_EQ(found("net/../../secret.py"), "not found");
  EXPECT_EQ(found((outer_ / "secret.py").string()), "not found");
  EXPECT_EQ(found("link.py"), "not found");
  EXPECT_EQ(found("up/secret.py"), "not found");
  EXPECT_EQ(found("inner.py"), "project/inner.py") << "a link within the folder";
  EXPECT_EQ(found(std::string("net/x.py\0.py", 12)), "not found");
  EXPECT_EQ(found(std::string(100'000, '/') + "net/x.py"), "not found");
}

TEST_F(SourceFoldersTest, RejectsFilesThatAreNotSourceText) {
  write("project/id_rsa", "secret");
  write("project/binary.py", std::string("a\0b", 3));
  write("project/large.py", std::string(kMaxSourceBytes + 1, 'x'));
  std::filesystem::create_directory(project_ / "folder.py");
  ASSERT_EQ(mkfifo((project_ / "pipe.py").c_str(), 0600), 0);
  std::filesystem::create_symlink(project_ / "id_rsa", project_ / "key.py");
  EXPECT_EQ(found("id_rsa"), "not found");
  EXPECT_EQ(found("key.py"), "not found") << "a link to a file that is not source";
  EXPECT_THAT(found("binary.py"), EndsWith("binary.py is not text"));
  EXPECT_THAT(found("large.py"), HasSubstr("larger than 8.00 MiB"));
  EXPECT_EQ(found("folder.py"), "not found");
  EXPECT_EQ(found("pipe.py"), "not found") << "opening it would block";
}

TEST_F(SourceFoldersTest, RejectsOtherVersionOfFile) {
  const std::string path = "/srv/jobs/net/model.py";
  EXPECT_EQ(found(path, {{"forward", 5}, {"<module>", 1}, {"<lambda>", 2}}),
            "project/net/model.py");
  EXPECT_EQ(found(path, {{"Net", 4}}), "project/net/model.py") << "the body of a class";
  EXPECT_EQ(found(path, {{"Net.forward", 5}}), "project/net/model.py");
  EXPECT_THAT(found(path, {{"<module>", 6}}), HasSubstr("it has 5 lines, and line 6 was recorded"));
  EXPECT_THAT(found(path, {{"backward", 5}}), HasSubstr("line 5 was recorded in backward()"));
  EXPECT_THAT(found(path, {{"forward", 2}}), HasSubstr("line 2 was recorded in forward()"));
  write("project/model.py", "def backward():\n  pass\n#\n#\n#\n");
  EXPECT_EQ(found(path, {{"backward", 5}}), "project/model.py") << "the next shorter end";
}

TEST_F(SourceFoldersTest, RecognizesFunctionsResumedByDynamo) {
  const std::string path = "/srv/jobs/net/model.py";
  for (const char* name : {"torch_dynamo_resume_in_forward_at_5",
                           "torch_dynamo_resume_in_torch_dynamo_resume_in_forward_at_4_at_5",
                           "torch_dynamo_resume_in_<lambda>_at_2", "Net.<locals>.<lambda>"}) {
    EXPECT_EQ(found(path, {{name, 5}}), "project/net/model.py") << name;
  }
  EXPECT_THAT(found(path, {{"torch_dynamo_resume_in_backward_at_4", 5}}),
              HasSubstr("line 5 was recorded in backward()"));
}

TEST_F(SourceFoldersTest, RejectsFileIfOnlyItsNameAgrees) {
  write("project/utils.py", "a = 1\ndef f():\n  pass\n");
  write("project/kernel.cu", "int a;\n");
  EXPECT_THAT(found("/srv/jobs/lib/utils.py", {{"<module>", 1}}),
              HasSubstr("utils.py may be another file: its folder is not lib"));
  EXPECT_THAT(found("/srv/jobs/lib/kernel.cu", {{"main", 1}}), HasSubstr("may be another file"));
  EXPECT_EQ(found("/srv/jobs/lib/utils.py", {{"<module>", 1}, {"f", 3}}), "project/utils.py");
  EXPECT_EQ(found("/srv/project/utils.py", {{"<module>", 1}}), "project/utils.py")
      << "the folder that is searched has the recorded name";
  EXPECT_EQ(found("/srv/project/kernel.cu", {{"main", 1}}), "project/kernel.cu");
  EXPECT_EQ(found("utils.py", {{"<module>", 1}}), "project/utils.py") << "no folder was recorded";
}

TEST_F(SourceFoldersTest, RejectsArgumentThatIsNotFolder) {
  SourceFolders folders;
  const Status missing = folders.add((outer_ / "nowhere").string());
  EXPECT_TRUE(missing.is(StatusKind::kInvalidArgument));
  EXPECT_THAT(missing.message(),
              EndsWith("nowhere: No such file or directory (expected a folder)"));
  EXPECT_THAT(folders.add((project_ / "net/model.py").string()).message(),
              EndsWith("model.py: not a folder (expected a folder)"));
  EXPECT_TRUE(folders.is_empty());
}

}  // namespace
}  // namespace ashlar
