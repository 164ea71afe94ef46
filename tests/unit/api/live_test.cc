// SPDX-License-Identifier: Apache-2.0
//
// Tests of live monitoring of a process over its real sockets.
#include "ashlar/live.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <span>
#include <thread>

#include "api/allocator_registry.h"
#include "ashlar/allocator.h"
#include "ashlar/errors.h"
#include "ashlar/host.h"
#include "ashlar/sim.h"
#include "base/fd_passing.h"
#include "base/text.h"
#include "base/units.h"
#include "files/read_snapshot.h"
#include "http/client.h"
#include "mp/child_process.h"
#include "unit/http/socket_client.h"

namespace ashlar {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr const char* kToken = "a-token-of-0123456789";

class LiveServerTest : public ::testing::Test {
 protected:
  LiveServerTest() {
    sim::Options options;
    options.capacity_bytes = kGiB;
    machine_ = *sim::Machine::try_create(options);
  }
  Device& device(size_t index = 0) { return machine_->device(DeviceIndex(index)); }

  // Sends one request to the Unix socket.
  static http::ClientResponse get(const LiveServer& live, const std::string& target) {
    Result<UniqueFd> socket =
        connect_abstract(live.socket_name(), seconds(10), LocalSocketType::kStream);
    EXPECT_TRUE(socket.ok()) << socket.status().message();
    if (!socket.ok()) return {};
    Result<http::ClientResponse> reply = http::Client(*std::move(socket)).get(target);
    EXPECT_TRUE(reply.ok()) << reply.status().message();
    return reply.ok() ? *std::move(reply) : http::ClientResponse();
  }
  static Result<Snapshot> snapshot_in(const http::ClientResponse& reply) {
    return read_snapshot("answer", std::make_unique<MemorySource>(reply.body));
  }
  static uint16_t port_of(const LiveServer& live) {
    return static_cast<uint16_t>(std::stoi(live.url().substr(17)));
  }
  // Sends one request to the TCP port and returns the whole response.
  static std::string exchange(const LiveServer& live, const std::string& path,
                              const std::string& fields = "") {
    SocketClient client(port_of(live));
    client.send(text("GET ", path, " HTTP/1.1\r\nHost: 127.0.0.1:", port_of(live),
                     "\r\nConnection: close\r\n", fields, "\r\n"));
    return client.read_all();
  }

  std::unique_ptr<sim::Machine> machine_;
};

TEST_F(LiveServerTest, ListsAllocatorsIncludingLaterOnes) {
  const LiveServer live;
  EXPECT_THAT(get(live, "/stats").body, HasSubstr("\"allocators\": []"));
  Allocator first(device());
  const Buffer buffer = first.allocate(3 * kMiB);
  {
    const Allocator second(device(1), parse_options("engine:classic"));
    EXPECT_THAT(get(live, "/stats").body,
                AllOf(HasSubstr("\"device\": 0"), HasSubstr("\"device\": 1"),
                      HasSubstr("\"engine\": \"classic\""),
                      HasSubstr(text("\"requested_bytes.all.current\": ", 3 * kMiB))));
  }
  EXPECT_THAT(get(live, "/stats").body, Not(HasSubstr("\"device\": 1")));
  EXPECT_THAT(get(live, "/metrics").body, HasSubstr("ashlar_blocks{"));
}

TEST_F(LiveServerTest, ListsHostAllocatorsWhileTheyExist) {
  const LiveServer live;
  EXPECT_THAT(get(live, "/stats").body, HasSubstr("\"host_allocators\": []"));
  {
    HostAllocator host(device(1));
    const HostBuffer staging = host.allocate(5 * kMiB);
    EXPECT_THAT(get(live, "/stats").body,
                AllOf(HasSubstr("\"backend\": \"sim\", \"device\": 1"),
                      HasSubstr(text("\"requested_bytes.current\": ", 5 * kMiB))));
    EXPECT_THAT(get(live, "/metrics").body,
                HasSubstr("\nashlar_host_requested_bytes{host_allocator="));
  }
  EXPECT_THAT(get(live, "/stats").body, HasSubstr("\"host_allocators\": []"));
  EXPECT_THAT(get(live, "/metrics").body, Not(HasSubstr("ashlar_host_requested_bytes{")));
}

TEST_F(LiveServerTest, ServesSnapshotOfEachAllocator) {
  const LiveServer live;
  Allocator allocator(device());
  allocator.history().start();
  const Buffer buffer = allocator.allocate(3 * kMiB);
  Result<Snapshot> served = snapshot_in(get(live, "/snapshot"));
  ASSERT_TRUE(served.ok()) << served.status().message();
  Snapshot own = allocator.snapshot();
  own.device_traces[0].pop_back();  // the entry that this call of snapshot() added
  EXPECT_EQ(served->segments, own.segments);
  // Times are ignored, because each snapshot refines the clock's calibration and so changes the
  // times.
  ASSERT_EQ(served->device_traces.size(), own.device_traces.size());
  for (Snapshot* each : {&own, &served.value()}) {
    for (TraceEntry& entry : each->device_traces[0]) entry.time_us = 0;
  }
  EXPECT_EQ(served->device_traces, own.device_traces);
  const Result<Snapshot> without_traces = snapshot_in(get(live, "/snapshot?traces=0"));
  ASSERT_TRUE(without_traces.ok());
  EXPECT_EQ(without_traces->segments.size(), own.segments.size());
  for (const auto& trace : without_traces->device_traces) EXPECT_TRUE(trace.empty());
}

TEST_F(LiveServerTest, ServesHistorySinceGivenTime) {
  const LiveServer live;
  Allocator allocator(device());
  allocator.history().start();
  const Buffer old = allocator.allocate(3 * kMiB);
  allocator.history().annotate({{"name", "before"}});
  const Snapshot before = allocator.snapshot();
  // Each snapshot refines the clock's calibration and so changes the times of entries. The change
  // is below this bound even if the first calibration was interrupted.
  constexpr int64_t kApartUs = 50'000;
  const int64_t since_us = before.device_traces[0].back().time_us + kApartUs;
  const std::chrono::system_clock::time_point later{std::chrono::microseconds(since_us + kApartUs)};
  std::this_thread::sleep_until(later);
  const Buffer recent = allocator.allocate(7 * kMiB);
  const Result<Snapshot> served = snapshot_in(get(live, text("/snapshot?since_us=", since_us)));
  ASSERT_TRUE(served.ok()) << served.status().message();
  ASSERT_FALSE(served->device_traces[0].empty());
  for (const TraceEntry& entry : served->device_traces[0]) {
    EXPECT_NE(entry.bytes, 3 * kMiB);
    EXPECT_GE(entry.time_us, since_us);
  }
  EXPECT_TRUE(served->annotations.empty());
  EXPECT_EQ(served->segments.size(), allocator.snapshot().segments.size())
      << "the state is complete";
}

TEST_F(LiveServerTest, ForkedChildIgnoresVisitsInParent) {
  auto allocator = std::make_unique<Allocator>(device());
  DeviceAllocatorRegistry& registry = DeviceAllocatorRegistry::instance();
  EXPECT_TRUE(registry.visit(registry.numbers().back(), [&](Allocator&) {
    ChildProcess child([&](int) {
      allocator.reset();
      return 0;
    });
    EXPECT_EQ(child.wait(), 0);
  }));
}

// Ends this process after 30 s, in case it hangs.
void abort_if_hanging() { ::alarm(30); }

TEST_F(LiveServerTest, ForkedChildIgnoresLocksHeldInParent) {
  auto allocator = std::make_unique<Allocator>(device());
  DeviceAllocatorRegistry& registry = DeviceAllocatorRegistry::instance();
  std::atomic<bool> is_over{false};
  std::thread reader([&] {
    while (!is_over) static_cast<void>(registry.numbers());
  });
  for (int round = 0; round < 50 && !HasFailure(); ++round) {
    ChildProcess child([&](int) {
      abort_if_hanging();
      allocator.reset();
      return 0;
    });
    EXPECT_EQ(child.wait(), 0) << "in round " << round;
  }
  is_over = true;
  reader.join();
}

TEST_F(LiveServerTest, ExitOfChildDoesNotStopParentServer) {
  auto live = std::make_unique<LiveServer>(LiveOptions{.port = 0, .token = kToken});
  ChildProcess child([&](int) {
    abort_if_hanging();
    live.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(get(*live, "/stats").code, 200);
  EXPECT_EQ(code_of(exchange(*live, text("/", kToken, "/stats"))), 200);
}

TEST_F(LiveServerTest, ChildClosesListeningSockets) {
  ChildProcess parent([&](int socket_fd) {
    abort_if_hanging();
    const LiveServer live;
    Result<UniqueFd> client_fd =
        connect_abstract(live.socket_name(), seconds(10), LocalSocketType::kStream);
    if (!client_fd.ok()) return 1;
    http::Client client(*std::move(client_fd));
    if (!client.get("/stats").ok()) return 2;  // the server has an open connection
    const ChildProcess child([&](int own_socket_fd) {
      abort_if_hanging();
      notify(own_socket_fd);
      wait_for_notification(socket_fd);  // waits until the test ends
      return 0;
    });
    if (!wait_for_notification(child.socket_fd())) return 3;  // the child is running
    const auto* name = reinterpret_cast<const uint8_t*>(live.socket_name().data());
    const std::span bytes(name, live.socket_name().size());
    if (!send_message(socket_fd, bytes, -1, seconds(10)).ok()) return 4;
    ::pause();
    return 5;
  });
  std::array<uint8_t, 128> name{};
  const Result<ReceivedMessage> served = receive_message(parent.socket_fd(), name, seconds(10));
  ASSERT_TRUE(served.ok()) << served.status().message();
  const std::string_view socket_name(reinterpret_cast<const char*>(name.data()), served->bytes);
  EXPECT_TRUE(connect_abstract(socket_name, seconds(10), LocalSocketType::kStream).ok());
  parent.kill();
  EXPECT_FALSE(connect_abstract(socket_name, seconds(10), LocalSocketType::kStream).ok());
}

TEST_F(LiveServerTest, PortRequiresToken) {
  const LiveServer live({.port = 0, .token = kToken});
  EXPECT_THAT(live.url(), MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/a-token-of-0123456789/"));
  EXPECT_EQ(code_of(exchange(live, text("/", kToken, "/metrics"))), 200);
  EXPECT_EQ(code_of(exchange(live, "/metrics", text("Authorization: Bearer ", kToken, "\r\n"))),
            200);
  const auto code_with = [&](const std::string& authorization) {
    return code_of(exchange(live, "/metrics", text("Authorization: ", authorization, "\r\n")));
  };
  EXPECT_EQ(code_of(exchange(live, "/metrics")), 401);
  EXPECT_EQ(code_with("Bearer "), 401);
  EXPECT_EQ(code_with(text("Basic ", kToken)), 401);
  EXPECT_EQ(code_with("Bearer a-token-of-012345678x"), 403);
  EXPECT_EQ(code_of(exchange(live, "/stats/metrics")), 403);
  EXPECT_THAT(exchange(live, text("/ticket/", std::string(32, '0'))),
              AllOf(HasSubstr(" 403 "), HasSubstr("the token is wrong")))
      << "one-time tokens are disabled";
  EXPECT_EQ(code_of(exchange(live, text("/", kToken, "/../../etc/passwd"))), 404);
}

size_t inherited_socket_count() {
  size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++count;
  }
  return count;
}

TEST_F(LiveServerTest, StartedProgramsInheritNoSockets) {
  const size_t before = inherited_socket_count();
  const LiveServer live({.port = 0, .token = kToken});
  http::Client client(*connect_abstract(live.socket_name(), seconds(10), LocalSocketType::kStream));
  ASSERT_TRUE(client.get("/stats").ok());
  EXPECT_EQ(inherited_socket_count(), before);
}

TEST_F(LiveServerTest, GeneratesTokenIfNoneIsGiven) {
  const LiveServer live({.port = 0});
  EXPECT_THAT(live.url(), MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/[0-9a-f]{32}/"));
}

TEST_F(LiveServerTest, RespondsToInvalidRequestsWithErrorCodes) {
  const LiveServer live({.port = 0, .token = kToken});
  const auto send = [&](const std::string& bytes) {
    SocketClient client(port_of(live));
    client.send(bytes);
    client.end_sending();
    return code_of(client.read_all());
  };
  const std::string host = text("Host: 127.0.0.1:", port_of(live), "\r\n");
  EXPECT_EQ(send("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(send(text("GET /", kToken, "/stats HTTP/1.1\r\n\r\n")), 400);
  EXPECT_EQ(send(text("GET /", kToken, "/stats HTTP/1.1\r\nHost: evil.example\r\n\r\n")), 421);
  EXPECT_EQ(send(text("DELETE /", kToken, "/stats HTTP/1.1\r\n", host, "\r\n")), 405);
  EXPECT_EQ(send(text("POST /", kToken, "/stats HTTP/1.1\r\n", host, "Content-Length: 0\r\n\r\n")),
            405);
  EXPECT_EQ(send(text("GET /", kToken, "/stats HTTP/1.1\r\n", host, "Authorization: a\r\n",
                      "Authorization: b\r\n\r\n")),
            400);
  EXPECT_EQ(send(text("GET /", std::string(20000, 'a'), " HTTP/1.1\r\n", host, "\r\n")), 431);
}

TEST_F(LiveServerTest, RejectsInvalidOptions) {
  EXPECT_THROW(LiveServer({.port = 0, .token = "short"}), InvalidArgument);
  EXPECT_THROW(LiveServer({.port = 0, .token = "sixteen letters/"}), InvalidArgument);
  EXPECT_THROW(LiveServer({.port = std::nullopt, .token = kToken}), InvalidArgument);
  const LiveServer live({.port = 0, .token = kToken});
  EXPECT_THROW(LiveServer({.port = port_of(live), .token = kToken}), DeviceError);
}

using LiveConcurrencyTest = LiveServerTest;

TEST_F(LiveConcurrencyTest, AllocatorsStartAndEndWhileObserved) {
  const LiveServer live({.port = 0, .token = kToken});
  std::atomic<bool> is_over{false};
  std::vector<std::thread> observers;
  for (const char* target : {"/stats", "/metrics", "/snapshot"}) {
    observers.emplace_back([&, target] {
      while (!is_over) {
        const http::ClientResponse reply = get(live, target);
        EXPECT_NE(reply.code, 0);
      }
    });
  }
  for (int round = 0; round < 60; ++round) {
    HostAllocator host(device());
    const HostBuffer staging = host.allocate(4096);
    Allocator allocator(device());
    allocator.history().start();
    for (int i = 0; i < 50; ++i) const Buffer temporary = allocator.allocate(size_t{1} << (i % 20));
  }
  is_over = true;
  for (std::thread& each : observers) each.join();
}

TEST_F(LiveConcurrencyTest, SlowReaderDoesNotBlockOthers) {
  auto live = std::make_unique<LiveServer>(LiveOptions{.port = 0, .token = kToken});
  auto allocator = std::make_unique<Allocator>(device());
  allocator->history().start();
  std::vector<Buffer> held;
  for (int i = 0; i < 20000; ++i) held.push_back(allocator->allocate(512));
  // The response exceeds the socket buffer, so the server is still writing it when the allocator is
  // destroyed.
  SocketClient slow_client(port_of(*live));
  slow_client.send(
      text("GET /", kToken, "/snapshot HTTP/1.1\r\nHost: 127.0.0.1:", port_of(*live), "\r\n\r\n"));
  EXPECT_EQ(code_of(exchange(*live, text("/", kToken, "/stats"))), 200);
  held.clear();
  allocator.reset();
  live.reset();
}

TEST_F(LiveConcurrencyTest, HoldsOneSnapshotAtATimeForSlowReaders) {
  const LiveServer live;
  Allocator allocator(device());
  allocator.history().start();
  std::vector<Buffer> held;
  for (int i = 0; i < 20000; ++i) held.push_back(allocator.allocate(512));
  UniqueFd slow_client =
      *connect_abstract(live.socket_name(), seconds(10), LocalSocketType::kStream);
  const std::string request = "GET /snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_EQ(::send(slow_client.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  // Waits until the server has begun to send the response. The response exceeds the socket buffer,
  // so the server cannot finish sending it.
  char first = 0;
  ASSERT_EQ(::recv(slow_client.get(), &first, 1, MSG_WAITALL), 1);
  EXPECT_EQ(get(live, "/snapshot").code, 503);
  EXPECT_EQ(get(live, "/stats").code, 200);
  slow_client.reset();
  while (get(live, "/snapshot").code == 503) std::this_thread::yield();
  EXPECT_EQ(get(live, "/snapshot").code, 200) << "the snapshot is released after it was read";
}

TEST(AllocatorRegistryConcurrencyTest, RemovalWaitsForVisitors) {
  sim::Options options;
  options.capacity_bytes = kGiB;
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create(options);
  auto allocator = std::make_unique<Allocator>(machine->device(DeviceIndex(0)));
  DeviceAllocatorRegistry& registry = DeviceAllocatorRegistry::instance();
  const uint64_t number = registry.numbers().back();
  std::atomic<bool> is_visiting{false};
  std::atomic<bool> may_finish{false};
  std::atomic<bool> is_seen{false};
  std::thread visitor([&] {
    EXPECT_TRUE(registry.visit(number, [&](Allocator& seen) {
      is_visiting = true;
      while (!may_finish) std::this_thread::yield();
      is_seen = seen.stats().ooms == 0;
    }));
  });
  while (!is_visiting) std::this_thread::yield();
  std::thread owner([&] { allocator.reset(); });
  // Waits until removal has begun. From then on, new visits are refused.
  while (!registry.numbers().empty()) std::this_thread::yield();
  EXPECT_FALSE(
      registry.visit(number, [](Allocator&) { FAIL() << "the allocator is being removed"; }));
  may_finish = true;
  visitor.join();
  owner.join();
  EXPECT_TRUE(is_seen);
}

}  // namespace
}  // namespace ashlar
