// SPDX-License-Identifier: Apache-2.0
//
// Tests two transports of one process, connected over TCP, with many threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "ashlar/ucx_transport.h"
#include "contract/waiting.h"
#include "symm/transports/transport.h"
#include "unit/symm/deadlines.h"

namespace ashlar::symm {
namespace {

struct Side {
  explicit Side(const char* transports = "tcp")
      : transport(*try_open_ucx_transport(over(transports))), region(*transport->share(memory)) {}

  static UcxOptions over(const char* transports) {
    UcxOptions options;
    options.transports = transports;
    return options;
  }
  void connect_to(const Side& other) {
    endpoint =
        *transport->connect(*other.transport->address(), {1, "pair", failure}, long_deadline());
    remote = *endpoint->open(other.region->key());
  }

  alignas(8) std::array<std::byte, 4096> memory{};
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  std::shared_ptr<Transport> transport;
  std::unique_ptr<Region> region;
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<RemoteRegion> remote;
};

constexpr int kThreads = 6;
constexpr int kRepetitions = 100;
constexpr int kRounds = 20;

TEST(UcxTransportConcurrencyTest, ManyThreadsShareOneEndpoint) {
  Side local;
  Side peer;
  local.connect_to(peer);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const uint64_t own = 64 + 8 * t;
      for (uint64_t i = 1; i <= kRepetitions; ++i) {
        uint64_t got = 0;
        const bool is_good =
            local.remote->put(own, std::as_bytes(std::span(&i, 1)), long_deadline()).ok() &&
            local.endpoint->fence(long_deadline()).ok() &&
            local.remote->get(own, std::as_writable_bytes(std::span(&got, 1)), long_deadline())
                .ok() &&
            got == i &&
            local.remote->post({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, long_deadline()).ok();
        if (!is_good) failures.fetch_add(1);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(failures.load(), 0);
  EXPECT_TRUE(local.transport->quiet(long_deadline()).ok());
  EXPECT_EQ(*local.remote->fetch({AtomicKind::kAdd, WordBytes::k8, 0, 0, 0}, long_deadline()),
            kThreads * kRepetitions);
}

// The worker's thread stays idle while a caller polls, and must resume for calls from peers.
TEST(UcxTransportConcurrencyTest, RespondsToPeersAfterPolling) {
  Side local;
  Side peer;
  local.connect_to(peer);
  peer.connect_to(local);
  const AtomicOp add_one{AtomicKind::kAdd, WordBytes::k8, 0, 1, 0};
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint64_t i = 0; i < kRepetitions; ++i) {
      const Result<uint64_t> before = local.remote->fetch(add_one, long_deadline());
      ASSERT_TRUE(before.ok()) << before.status().to_string();
      ASSERT_EQ(*before, round * kRepetitions + i);
    }
    const Result<uint64_t> before = peer.remote->fetch(add_one, long_deadline());
    ASSERT_TRUE(before.ok()) << before.status().to_string();
    ASSERT_EQ(*before, round);
  }
}

// Threads that repeat a call until it fails or a long deadline passes.
class LoopingThreads {
 public:
  explicit LoopingThreads(const std::function<Status(int thread)>& call) {
    for (int t = 0; t < kThreads; ++t) {
      threads_.emplace_back([this, call, t] {
        const Deadline end = long_deadline();
        Status status;
        while (status.ok() && !end.has_passed()) {
          status = call(t);
          call_count_.fetch_add(1);
        }
        results_[t] = status;
      });
    }
  }
  ~LoopingThreads() { results(); }
  LoopingThreads(const LoopingThreads&) = delete;
  LoopingThreads& operator=(const LoopingThreads&) = delete;

  bool are_running() const { return call_count_.load() >= 10 * kThreads; }
  // Waits for the threads to end. Returns the final status of each thread.
  const std::vector<Status>& results() {
    for (std::thread& each : threads_) {
      if (each.joinable()) each.join();
    }
    return results_;
  }

 private:
  std::atomic<int> call_count_{0};
  std::vector<Status> results_ = std::vector<Status>(kThreads);
  std::vector<std::thread> threads_;
};

TEST(UcxTransportConcurrencyTest, EndsWhileThreadsUseIt) {
  Side local;
  Side peer;
  local.connect_to(peer);
  LoopingThreads callers([&](int thread) {
    std::array<std::byte, 512> own{};
    if (thread % 2 == 0) return local.remote->get(0, own, long_deadline());
    return local.remote->post({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, long_deadline());
  });
  EXPECT_TRUE(contract::eventually([&] { return callers.are_running(); }));
  std::thread second([&] { local.transport->end(); });
  local.transport->end();
  second.join();
  for (const Status& each : callers.results()) {
    EXPECT_EQ(each.kind(), StatusKind::kInvalidArgument) << each.to_string();
  }
  EXPECT_FALSE(local.failure->has_happened()) << local.failure->reason().to_string();
}

// A thread that closes an object after the transport has ended must not use freed UCX objects.
TEST(UcxTransportConcurrencyTest, EndsWhileThreadsCloseItsObjects) {
  for (const char* transports : {"tcp", "sm,self"}) {
    Side peer(transports);
    for (int round = 0; round < kRounds; ++round) {
      Side local(transports);
      std::vector<std::unique_ptr<Endpoint>> endpoints;
      std::vector<std::unique_ptr<RemoteRegion>> regions;
      for (int t = 0; t < kThreads; ++t) {
        local.connect_to(peer);
        endpoints.push_back(std::move(local.endpoint));
        regions.push_back(std::move(local.remote));
      }
      std::atomic<int> ready{0};
      const auto all_are_ready = [&] {
        ready.fetch_add(1);
        const Deadline end = long_deadline();
        while (ready.load() <= kThreads && !end.has_passed()) {
        }
      };
      std::vector<std::thread> closers;
      for (int t = 0; t < kThreads; ++t) {
        closers.emplace_back([&, t] {
          all_are_ready();
          regions[t].reset();
          endpoints[t].reset();
        });
      }
      all_are_ready();
      local.transport->end();
      for (std::thread& each : closers) each.join();
      EXPECT_FALSE(local.failure->has_happened()) << local.failure->reason().to_string();
    }
  }
}

TEST(UcxTransportConcurrencyTest, PeerEndFailsEveryWaiter) {
  Side local;
  Side peer;
  local.connect_to(peer);
  LoopingThreads callers([&](int) {
    std::array<std::byte, 512> own{};
    return local.remote->get(0, own, long_deadline());
  });
  EXPECT_TRUE(contract::eventually([&] { return callers.are_running(); }));
  peer.transport->end();
  for (const Status& each : callers.results()) {
    EXPECT_EQ(each.kind(), StatusKind::kPeerLost) << each.to_string();
  }
  EXPECT_EQ(local.failure->reason().kind(), StatusKind::kPeerLost);
}

}  // namespace
}  // namespace ashlar::symm
