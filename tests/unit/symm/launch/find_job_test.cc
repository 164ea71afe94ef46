// SPDX-License-Identifier: Apache-2.0
//
// Tests how a job is found from variables: ranks, addresses, tokens and their files. Launchers are
// tested in tests/launch.
#include "symm/launch/find_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ashlar/tcp_store.h"
#include "base/text.h"
#include "unit/symm/deadlines.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar::symm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kJobToken = "0123456789abcdef";

Result<LaunchSettings> settings(const Environment::Values& values) {
  return launch_settings_from(Environment(values));
}

TEST(LaunchSettings, ReadsTheRankOfKnownLaunchers) {
  const Environment::Values launchers[] = {
      {{"ASHLAR_RANK", "1"}, {"ASHLAR_WORLD_SIZE", "3"}},
      {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "3"}},
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}},
      {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "3"}},
  };
  for (const Environment::Values& each : launchers) {
    const Result<LaunchSettings> found = settings(each);
    ASSERT_TRUE(found.ok() && found->rank) << found.status().to_string();
    EXPECT_EQ(found->rank->rank, 1);
    EXPECT_EQ(found->rank->world_size, 3);
  }
  EXPECT_FALSE(settings({})->rank);
}

TEST(LaunchSettings, RejectsWrongValues) {
  EXPECT_THAT(settings({{"ASHLAR_RANK", "3"}, {"ASHLAR_WORLD_SIZE", "3"}}).status().message(),
              HasSubstr("ASHLAR_RANK is \"3\" (expected a whole number from 0 to 2)"));
  EXPECT_THAT(settings({{"ASHLAR_RANK", "0"}}).status().message(), HasSubstr("set both"));
  EXPECT_EQ(settings({{"ASHLAR_RANKS", "0"}}).status().kind(), StatusKind::kInvalidArgument);
}

TEST(LaunchSettings, NamesTheJobAfterTheLaunchersJob) {
  EXPECT_EQ(settings({})->job, "job");
  EXPECT_EQ(settings({{"PMIX_NAMESPACE", "a/b c"}})->job, "a_b_c");
  EXPECT_EQ(settings({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "1"}})->job, "7.1");
  EXPECT_EQ(settings({{"PMIX_NAMESPACE", "a"}, {"ASHLAR_JOB", "mine"}})->job, "mine");
}

TEST(FindJob, OneRankNeedsNothing) {
  const Result<Job> job = find_job({}, long_deadline());
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->world_size, 1);
  EXPECT_NE(job->store, nullptr);
}

TEST(FindJob, UsesAServerThatListensOnTheAddress) {
  const auto server = start_tcp_store_server({.token = kJobToken});
  LaunchSettings launch;
  launch.rank = {.rank = 0, .world_size = 2};
  launch.store = text("tcp://127.0.0.1:", server->port());
  launch.token = kJobToken;
  const Result<Job> zero = find_job(launch, long_deadline());
  launch.rank->rank = 1;
  const Result<Job> one = find_job(launch, long_deadline());
  ASSERT_TRUE(zero.ok() && one.ok()) << zero.status().to_string() << one.status().to_string();
  ASSERT_TRUE(zero->store->set("key", "1", kNoExpiry, long_deadline()).ok());
  EXPECT_EQ(*one->store->get("key", long_deadline()), "1");
}

TEST(FindJob, RejectsMissingTokensAndStores) {
  LaunchSettings launch;
  launch.rank = {.rank = 1, .world_size = 2};
  EXPECT_EQ(find_job(launch, long_deadline()).status().kind(), StatusKind::kInvalidArgument);
  launch.store = "tcp://127.0.0.1:1";
  launch.token = "too short";
  const Status status = find_job(launch, long_deadline()).status();
  EXPECT_THAT(status.message(), HasSubstr("set ASHLAR_STORE_TOKEN"));
  EXPECT_THAT(status.message(), Not(HasSubstr("too short")));
  launch.store = "redis://127.0.0.1";
  EXPECT_EQ(find_job(launch, long_deadline()).status().kind(), StatusKind::kInvalidArgument);
}

TEST(ParseTcpAddress, AcceptsNamesAndAddresses) {
  EXPECT_EQ(parse_tcp_address("tcp://host:1")->to_string(), "host:1");
  EXPECT_EQ(parse_tcp_address("tcp://[::1]:65535")->to_string(), "[::1]:65535");
  for (const char* wrong :
       {"", "tcp://", "tcp://host", "tcp://:1", "tcp://host:", "tcp://host:0", "tcp://host:65536",
        "tcp://host:1x", "tcp://::1:5", "tcp://[]:1", "host:1", "http://host:1"}) {
    EXPECT_EQ(parse_tcp_address(wrong).status().kind(), StatusKind::kInvalidArgument) << wrong;
  }
}

class TokenFileTest : public ::testing::Test {
 protected:
  Result<std::string> read(const std::string& content, std::filesystem::perms permissions) {
    std::ofstream(path_) << content;
    std::filesystem::permissions(path_, permissions);
    Result<std::string> token = read_token_file(path_);
    std::filesystem::remove(path_);
    return token;
  }

  static constexpr auto kOwner = std::filesystem::perms::owner_read;
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/token";
};

TEST_F(TokenFileTest, TrimsTheToken) {
  EXPECT_EQ(*read(text(" \n", kJobToken, "\r\n"), kOwner), kJobToken);
}

TEST_F(TokenFileTest, RejectsFilesThatOthersCanAccess) {
  using std::filesystem::perms;
  for (const perms others : {perms::group_read, perms::others_read, perms::group_write}) {
    EXPECT_EQ(read(kJobToken, kOwner | others).status().kind(), StatusKind::kInvalidArgument);
  }
  EXPECT_EQ(read_token_file(folder_.path()).status().kind(), StatusKind::kInvalidArgument);
  EXPECT_EQ(read_token_file(path_).status().kind(), StatusKind::kDeviceFault);
}

TEST_F(TokenFileTest, RejectsFilesWithoutAToken) {
  for (const std::string& content : {std::string(), std::string("short"), std::string(10'000, 'x'),
                                     kJobToken + "\n" + kJobToken}) {
    const Status status = read(content, kOwner).status();
    EXPECT_EQ(status.kind(), StatusKind::kInvalidArgument);
    EXPECT_THAT(status.message(), Not(HasSubstr(kJobToken)));
  }
}

}  // namespace
}  // namespace ashlar::symm
