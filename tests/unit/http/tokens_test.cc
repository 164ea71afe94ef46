// SPDX-License-Identifier: Apache-2.0
//
// Tests of access tokens and one-time tokens.
#include "http/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "mp/child_process.h"
#include "unit/http/echo_server.h"

namespace ashlar::http {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

using HttpOneTimeTokenTest = ServerTest;

TEST_F(HttpOneTimeTokenTest, RedirectsOnce) {
  const std::string address = *server_->one_time_url();
  ASSERT_TRUE(address.starts_with("http://" + host() + "/ticket/"));
  EXPECT_EQ(address.find(kToken), std::string::npos);
  const std::string path = address.substr(address.find("/ticket/"));
  const std::string first = get(path);
  EXPECT_EQ(code_of(first), 303);
  EXPECT_THAT(first, HasSubstr("Location: /0123456789abcdef/\r\n"));
  const std::string second = get(path);
  EXPECT_EQ(code_of(second), 403);
  EXPECT_THAT(second, Not(HasSubstr(kToken)));
  EXPECT_EQ(code_of(get("/ticket/")), 403);
  EXPECT_EQ(code_of(get("/ticket/00000000000000000000000000000000")), 403);
}

TEST_F(HttpOneTimeTokenTest, HasNoPathBeforeFirstToken) {
  const std::string path = "/ticket/" + std::string(32, '0');
  EXPECT_EQ(body_of(get(path)), body_of(get("/other/" + std::string(32, '0'))));
  ASSERT_TRUE(server_->one_time_url().ok());
  EXPECT_THAT(body_of(get(path)), HasSubstr("this one-time address"));
}

TEST_F(HttpOneTimeTokenTest, RejectsTokenOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can become another user";
  const std::string address = *server_->one_time_url();
  const std::string path = address.substr(address.find("/ticket/"));
  ChildProcess other_user([&](int) {
    if (::setuid(65534) != 0) return 1;
    const std::string answer = get(path);
    return code_of(answer) == 403 && answer.find(kToken) == std::string::npos ? 0 : 2;
  });
  EXPECT_EQ(other_user.wait(), 0);
  EXPECT_EQ(code_of(get(path)), 303) << "a rejected user must not consume the token";
}

TEST(OneTimeTokensTest, ExpiresAndIsReplaced) {
  OneTimeTokens one_time_tokens;
  const OneTimeTokens::Time now{};
  EXPECT_FALSE(one_time_tokens.redeem("", now));
  const std::string first = *one_time_tokens.issue(now);
  const std::string second = *one_time_tokens.issue(now);
  EXPECT_NE(first, second);
  EXPECT_FALSE(one_time_tokens.redeem(first, now));
  EXPECT_FALSE(one_time_tokens.redeem(second, now + OneTimeTokens::kLifetime));
  EXPECT_TRUE(one_time_tokens.redeem(second, now + OneTimeTokens::kLifetime - milliseconds(1)));
  EXPECT_FALSE(one_time_tokens.redeem(second, now));
}

TEST(OneTimeTokensTest, FindsTheUserOfThePeer) {
  constexpr std::string_view kLines =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout\n"
      "   0: 0100007F:1F90 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000     1  0 11\n"
      "   1: 0200007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     2  0 12\n"
      "   2: 0100007F:A1B2 0100007F:1F91 01 00000000:00000000 00:00000000 00000000     3  0 13\n"
      "   3: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000  0 14\n";
  EXPECT_EQ(peer_user_in(kLines, {.own = 0x1f90, .peer = 0xa1b2}), 1000U);
  EXPECT_EQ(peer_user_in(kLines, {.own = 0x1f90, .peer = 0xa1b3}), std::nullopt);
  EXPECT_EQ(peer_user_in("", {.own = 1, .peer = 2}), std::nullopt);
  EXPECT_EQ(peer_user_in("0: 0100007F:0002 0100007F:0001 x", {.own = 1, .peer = 2}), std::nullopt);
}

TEST(OneTimeTokensTest, OrphanedSocketHasNoUser) {
  // The kernel lists a half-closed socket with its owner. With user 0, it lists a socket that its
  // process has closed (FIN_WAIT2, TIME_WAIT), and a connection that was not accepted yet.
  const auto line = [](const char* state, const char* uid, const char* inode) {
    return text("   0: 0100007F:A1B2 0100007F:1F90 ", state,
                " 00000000:00000000 00:00000000 00000000 ", uid, " 0 ", inode, " 1 0 20 4 30\n");
  };
  const LoopbackPorts ports{.own = 0x1f90, .peer = 0xa1b2};
  EXPECT_EQ(peer_user_in(line("05", "1000", "14"), ports), 1000U);
  for (const char* state : {"05", "06", "0C", "09"}) {
    EXPECT_EQ(peer_user_in(line(state, "0", "0"), ports), std::nullopt) << state;
  }
  EXPECT_EQ(peer_user_in(line("06", "0", "0") + line("01", "1000", "14"), ports), 1000U);
}

TEST(OneTimeTokensTest, ClosedPeerIsNotTakenForRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can become another user";
  const Listener listener = *listen_loopback(0);
  ChildProcess other_user([&](int) {
    if (::setuid(65534) != 0) return 1;
    return SocketClient(listener.port).send("GET") ? 0 : 2;
  });
  EXPECT_EQ(other_user.wait(), 0);
  const UniqueFd accepted(::accept(listener.socket.get(), nullptr, nullptr));
  ASSERT_TRUE(accepted.valid());
  EXPECT_FALSE(is_loopback_peer_own_user(accepted.get()));
}

}  // namespace
}  // namespace ashlar::http
