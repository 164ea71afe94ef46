// SPDX-License-Identifier: Apache-2.0
//
// Tests of a server in a process that forks.
#include <gtest/gtest.h>
#include <unistd.h>

#include "mp/child_process.h"
#include "unit/http/echo_server.h"

namespace ashlar::http {
namespace {

using HttpForkTest = ServerTest;

// Ends this process after 30 s, in case it hangs.
void abort_if_hanging() { ::alarm(30); }

TEST_F(HttpForkTest, ChildDestructorDoesNotStopParentServer) {
  SocketClient before(server_->port());
  before.send(request("GET /0123456789abcdef/before"));
  EXPECT_EQ(body_of(before.read_response()), "before|");
  ChildProcess child([&](int) {
    abort_if_hanging();
    server_.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(body_of(get("/0123456789abcdef/after")), "after|");
  before.send(request("GET /0123456789abcdef/again"));
  EXPECT_EQ(body_of(before.read_response()), "again|");
}

TEST_F(HttpForkTest, ServerEndsWhileChildLives) {
  SocketClient open(server_->port());
  open.send(request("GET /0123456789abcdef/a"));
  EXPECT_EQ(code_of(open.read_response()), 200);
  ChildProcess child([&](int socket_fd) {
    abort_if_hanging();
    wait_for_notification(socket_fd);
    return 0;
  });
  const uint16_t port = server_->port();
  server_.reset();
  EXPECT_EQ(open.read_all(), "");
  const Result<std::unique_ptr<Server>> next =
      Server::start(echo_, {.port = port, .token = kToken});
  EXPECT_TRUE(next.ok()) << next.status().message();
  notify(child.socket_fd());
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace ashlar::http
