// SPDX-License-Identifier: Apache-2.0
//
// Tests that other processes discover a monitored process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "ashlar/live.h"
#include "base/fd_passing.h"
#include "base/text.h"
#include "http/client.h"
#include "live/discovery.h"

namespace ashlar {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(LiveDiscoveryTest, IsFoundByProcessId) {
  EXPECT_FALSE(live::connect_to_monitored_process(::getpid()).ok());
  {
    const LiveServer live;
    EXPECT_THAT(live.socket_name(), StartsWith(text("ashlar-live.", ::getpid(), ".")));
    EXPECT_EQ(live.url(), "");
    Result<live::MonitoredProcess> found = live::connect_to_monitored_process(::getpid());
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->pid, ::getpid());
    const Result<http::ClientResponse> reply = http::Client(std::move(found->socket)).get("/stats");
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->code, 200);
  }
  const Result<live::MonitoredProcess> gone = live::connect_to_monitored_process(::getpid());
  EXPECT_EQ(gone.status().kind(), StatusKind::kInvalidArgument);
  EXPECT_THAT(gone.status().message(), HasSubstr("ASHLAR_LIVE=on"));
  EXPECT_THAT(live::connect_to_monitored_process(0).status().message(), HasSubstr("0 is not"));
  EXPECT_THAT(live::connect_to_monitored_process(1 << 30).status().message(),
              HasSubstr("there is no process"));
}

TEST(LiveDiscoveryTest, DoesNotConnectToOtherProcesses) {
  const LiveServer live;
  const UniqueFd bystander =
      *listen_abstract(text("ashlar-live.1.bystander-", ::getpid()), LocalSocketType::kStream);
  EXPECT_TRUE(live::connect_to_monitored_process(::getpid()).ok());
  pollfd waiting{bystander.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0) << "unexpected connection";
}

TEST(LiveDiscoveryTest, FindsProcessInAnotherPidNamespace) {
  const UniqueFd contained =
      *listen_abstract(text("ashlar-live.1.contained-", ::getpid()), LocalSocketType::kStream);
  const Result<live::MonitoredProcess> found = live::connect_to_monitored_process(::getpid());
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->pid, ::getpid());
}

TEST(LiveDiscoveryTest, UnresponsiveProcessDoesNotBlockSearch) {
  // The socket is named after this process, so that the search tries it first. No thread accepts
  // connections to it, and the loop fills its backlog.
  const std::string name = text("ashlar-live.", ::getpid(), ".unresponsive");
  const UniqueFd unresponsive = *listen_abstract(name, LocalSocketType::kStream);
  ASSERT_EQ(::listen(unresponsive.get(), 0), 0);
  std::vector<UniqueFd> queue;
  while (true) {
    Result<UniqueFd> next = connect_abstract(name, milliseconds(1), LocalSocketType::kStream);
    if (!next.ok()) break;
    queue.push_back(*std::move(next));
  }
  const LiveServer live;
  const Result<live::MonitoredProcess> found = live::connect_to_monitored_process(::getpid());
  EXPECT_TRUE(found.ok()) << found.status().message();
}

}  // namespace
}  // namespace ashlar
