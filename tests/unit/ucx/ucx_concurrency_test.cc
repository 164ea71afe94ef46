// Two transports of one process, connected over TCP, and many threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "ashlar/ucx_transport.h"
#include "symm/transport.h"

namespace ashlar::symm {
namespace {

Deadline patience() { return Deadline::after(std::chrono::seconds(60)); }

struct Side {
  static UcxOptions over_tcp() {
    UcxOptions options;
    options.transports = "tcp";
    return options;
  }
  void connect_to(const Side& other) {
    endpoint = *transport->connect(other.transport->address(), {1, "pair", failure}, patience());
    remote = *endpoint->open(other.region->key());
  }

  alignas(8) std::array<std::byte, 4096> memory{};
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  std::shared_ptr<Transport> transport = *open_ucx_transport(over_tcp());
  std::unique_ptr<Region> region = *transport->share(memory);
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<RemoteRegion> remote;
};

constexpr int kThreads = 6;
constexpr int kTimes = 100;

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

TEST(UcxTransportConcurrencyTest, ItMayEndWhileOthersUseIt) {
  Side here;
  Side there;
  here.connect_to(there);
  std::atomic<int> started{0};
  std::vector<Status> ends(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::array<std::byte, 512> own{};
      const Deadline end = patience();
      Status status;
      while (status.ok() && !end.has_passed()) {
        status = t % 2 == 0
                     ? here.remote->get(0, own, patience())
                     : here.remote->post({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, patience());
        started.fetch_add(1);
      }
      ends[t] = status;
    });
  }
  while (started.load() < 10 * kThreads) std::this_thread::yield();
  std::thread second([&] { here.transport->end(); });
  here.transport->end();
  second.join();
  for (std::thread& each : threads) each.join();
  for (const Status& each : ends) EXPECT_EQ(each.kind(), StatusKind::kUsage) << each.to_string();
  EXPECT_FALSE(here.failure->has_happened()) << here.failure->reason().to_string();
}

TEST(UcxTransportConcurrencyTest, TheOtherSidesEndFailsEveryWaiter) {
  Side here;
  Side there;
  here.connect_to(there);
  std::atomic<int> started{0};
  std::vector<Status> ends(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::array<std::byte, 512> own{};
      const Deadline end = patience();
      Status status;
      while (status.ok() && !end.has_passed()) {
        status = here.remote->get(0, own, patience());
        started.fetch_add(1);
      }
      ends[t] = status;
    });
  }
  while (started.load() < 2 * kThreads) std::this_thread::yield();
  there.transport->end();
  for (std::thread& each : threads) each.join();
  for (const Status& each : ends) EXPECT_EQ(each.kind(), StatusKind::kPeerLost) << each.to_string();
  EXPECT_EQ(here.failure->reason().kind(), StatusKind::kPeerLost);
}

}  // namespace
}  // namespace ashlar::symm
