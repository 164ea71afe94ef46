// SPDX-License-Identifier: Apache-2.0
//
// Two transports of one process, connected over TCP, and many threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "ashlar/ucx_transport.h"
#include "contract/waiting.h"
#include "symm/transports/transport.h"

namespace ashlar::symm {
namespace {

Deadline patience() { return Deadline::after(std::chrono::seconds(60)); }

struct Side {
  explicit Side(const char* transports = "tcp")
      : transport(*open_ucx_transport(over(transports))), region(*transport->share(memory)) {}

  static UcxOptions over(const char* transports) {
    UcxOptions options;
    options.transports = transports;
    return options;
  }
  void connect_to(const Side& other) {
    endpoint = *transport->connect(other.transport->address(), {1, "pair", failure}, patience());
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
constexpr int kTimes = 100;
constexpr int kRounds = 20;

TEST(UcxTransportConcurrencyTest, ManyThreadsUseOneEndpointAtOnce) {
  Side here;
  Side there;
  here.connect_to(there);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const uint64_t own = 64 + 8 * t;
      for (uint64_t i = 1; i <= kTimes; ++i) {
        uint64_t got = 0;
        const bool is_good =
            here.remote->put(own, std::as_bytes(std::span(&i, 1)), patience()).ok() &&
            here.endpoint->fence(patience()).ok() &&
            here.remote->get(own, std::as_writable_bytes(std::span(&got, 1)), patience()).ok() &&
            got == i &&
            here.remote->post({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, patience()).ok();
        if (!is_good) failures.fetch_add(1);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(failures.load(), 0);
  EXPECT_TRUE(here.transport->quiet(patience()).ok());
  EXPECT_EQ(*here.remote->fetch({AtomicKind::kAdd, WordBytes::k8, 0, 0, 0}, patience()),
            kThreads * kTimes);
}

// The thread of whoever looks itself goes out of the way; it comes back for those who call then.
TEST(UcxTransportConcurrencyTest, WhoeverHasWaitedForOthersAnswersThemAfterwards) {
  Side here;
  Side there;
  here.connect_to(there);
  there.connect_to(here);
  const AtomicOp add_one{AtomicKind::kAdd, WordBytes::k8, 0, 1, 0};
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint64_t i = 0; i < kTimes; ++i) {
      const Result<uint64_t> before = here.remote->fetch(add_one, patience());
      ASSERT_TRUE(before.ok()) << before.status().to_string();
      ASSERT_EQ(*before, round * kTimes + i);
    }
    const Result<uint64_t> before = there.remote->fetch(add_one, patience());
    ASSERT_TRUE(before.ok()) << before.status().to_string();
    ASSERT_EQ(*before, round);
  }
}

// Threads that ask again and again, until they are told why not.
class Askers {
 public:
  explicit Askers(const std::function<Status(int thread)>& ask) {
    for (int t = 0; t < kThreads; ++t) {
      threads_.emplace_back([this, ask, t] {
        const Deadline end = patience();
        Status status;
        while (status.ok() && !end.has_passed()) {
          status = ask(t);
          answered_.fetch_add(1);
        }
        ends_[t] = status;
      });
    }
  }
  ~Askers() { ends(); }
  Askers(const Askers&) = delete;
  Askers& operator=(const Askers&) = delete;

  bool are_busy() const { return answered_.load() >= 10 * kThreads; }
  // What each was told in the end.
  const std::vector<Status>& ends() {
    for (std::thread& each : threads_) {
      if (each.joinable()) each.join();
    }
    return ends_;
  }

 private:
  std::atomic<int> answered_{0};
  std::vector<Status> ends_ = std::vector<Status>(kThreads);
  std::vector<std::thread> threads_;
};

TEST(UcxTransportConcurrencyTest, ItMayEndWhileOthersUseIt) {
  Side here;
  Side there;
  here.connect_to(there);
  Askers askers([&](int thread) {
    std::array<std::byte, 512> own{};
    if (thread % 2 == 0) return here.remote->get(0, own, patience());
    return here.remote->post({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, patience());
  });
  EXPECT_TRUE(contract::eventually([&] { return askers.are_busy(); }));
  std::thread second([&] { here.transport->end(); });
  here.transport->end();
  second.join();
  for (const Status& each : askers.ends()) {
    EXPECT_EQ(each.kind(), StatusKind::kInvalidArgument) << each.to_string();
  }
  EXPECT_FALSE(here.failure->has_happened()) << here.failure->reason().to_string();
}

// Whoever comes late finds UCX's own memory gone.
TEST(UcxTransportConcurrencyTest, ItMayEndWhileOthersCloseWhatCameFromIt) {
  for (const char* transports : {"tcp", "sm,self"}) {
    Side there(transports);
    for (int round = 0; round < kRounds; ++round) {
      Side here(transports);
      std::vector<std::unique_ptr<Endpoint>> endpoints;
      std::vector<std::unique_ptr<RemoteRegion>> regions;
      for (int t = 0; t < kThreads; ++t) {
        here.connect_to(there);
        endpoints.push_back(std::move(here.endpoint));
        regions.push_back(std::move(here.remote));
      }
      std::atomic<int> ready{0};
      const auto all_are_ready = [&] {
        ready.fetch_add(1);
        const Deadline end = patience();
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
      here.transport->end();
      for (std::thread& each : closers) each.join();
      EXPECT_FALSE(here.failure->has_happened()) << here.failure->reason().to_string();
    }
  }
}

TEST(UcxTransportConcurrencyTest, TheOtherSidesEndFailsEveryWaiter) {
  Side here;
  Side there;
  here.connect_to(there);
  Askers askers([&](int) {
    std::array<std::byte, 512> own{};
    return here.remote->get(0, own, patience());
  });
  EXPECT_TRUE(contract::eventually([&] { return askers.are_busy(); }));
  there.transport->end();
  for (const Status& each : askers.ends()) {
    EXPECT_EQ(each.kind(), StatusKind::kPeerLost) << each.to_string();
  }
  EXPECT_EQ(here.failure->reason().kind(), StatusKind::kPeerLost);
}

}  // namespace
}  // namespace ashlar::symm
