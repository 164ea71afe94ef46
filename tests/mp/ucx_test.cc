// SPDX-License-Identifier: Apache-2.0
//
// The UCX transport between processes: remote memory access and failures. Runs over TCP, and over
// UCX's shared-memory transport, which cannot detect dead peers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "mp/harness/ucx_ranks.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kTcp = "tcp,self";
constexpr const char* kShared = "sm,self";

std::span<const std::byte> bytes_of(const uint64_t& word) {
  return std::as_bytes(std::span(&word, 1));
}

AtomicOp add(uint64_t offset, uint64_t operand, WordBytes word = WordBytes::k8) {
  return {AtomicKind::kAdd, word, offset, operand, 0};
}

class UcxProcesses : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Transports, UcxProcesses, ::testing::Values(kTcp, kShared),
                         [](const auto& tested) {
                           return std::string(tested.param == kTcp ? "Tcp" : "SharedMemory");
                         });

TEST_P(UcxProcesses, PutAndGetAllSizes) {
  RankProcesses ranks(3, [&](RankContext& context) -> std::string {
    UcxRank self(context, GetParam());
    // Each rank writes its own part of every rank's memory, in pieces of between one byte and
    // several packets.
    const size_t part = kSharedBytes / 4;
    for (int rank = 0; rank < context.world_size; ++rank) {
      std::vector<std::byte> sent(part, std::byte(10 + context.rank));
      size_t offset = part * context.rank;
      for (size_t bytes : {size_t{1}, size_t{7}, size_t{8}, size_t{4096}, size_t{100'000}}) {
        check_ok(self.region(rank).put(offset, {sent.data(), bytes}, long_deadline()));
        offset += bytes;
      }
      std::fill(sent.begin(), sent.end(), std::byte{99});  // the source may be reused after put
    }
    check_ok(self.transport->quiet(long_deadline()));
    self.barrier();
    const size_t written = 1 + 7 + 8 + 4096 + 100'000;
    for (int rank = 0; rank < context.world_size; ++rank) {
      std::vector<std::byte> got(kSharedBytes);
      check_ok(self.region(rank).get(0, got, long_deadline()));
      for (size_t i = 0; i < got.size(); ++i) {
        const bool is_written = i < 3 * part && i % part < written;
        const auto expected = std::byte(is_written ? 10 + i / part : 0);
        if (got[i] != expected) return text("byte ", i, " of rank ", rank);
      }
    }
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_P(UcxProcesses, AddAndSwapAtomically) {
  constexpr int kRepetitions = 200;
  RankProcesses ranks(3, [&](RankContext& context) -> std::string {
    UcxRank self(context, GetParam());
    RemoteRegion& zero = self.region(0);
    for (int i = 0; i < kRepetitions; ++i) {
      check_ok(zero.post(add(0, 3), long_deadline()));
      check_ok(zero.post(add(8, 5, WordBytes::k4), long_deadline()));
      check_ok(zero.fetch(add(16, 1), long_deadline()));
      // Increments by compare-and-swap, with 64 and 32 bits.
      for (WordBytes word : {WordBytes::k8, WordBytes::k4}) {
        AtomicOp call{AtomicKind::kCompareAndSwap, word, word == WordBytes::k8 ? 24U : 32U, 1, 0};
        for (;;) {
          const uint64_t found = check_ok(zero.fetch(call, long_deadline()));
          if (found == call.expected) break;
          call.expected = found;
          call.operand = found + 1;
        }
      }
    }
    check_ok(self.endpoint(0).quiet(long_deadline()));
    self.barrier();
    if (context.rank == 0) {
      const uint64_t all = uint64_t{3} * kRepetitions;
      if (self.own_word(0) != 3 * all) return text("posted: ", self.own_word(0));
      if (self.own_word(8) != 5 * all) return text("32 bits: ", self.own_word(8));
      if (self.own_word(16) != all) return text("fetched: ", self.own_word(16));
      if (self.own_word(24) != all) return text("compared: ", self.own_word(24));
      if (self.own_word(32) != all) return text("compared in 32 bits: ", self.own_word(32));
    }
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_P(UcxProcesses, OrderDataBeforeSignalByFence) {
  constexpr uint64_t kRounds = 300;
  constexpr size_t kWord = 0;
  constexpr size_t kPayload = 64;
  constexpr size_t kPayloadBytes = 20'000;
  RankProcesses ranks(2, [&](RankContext& context) -> std::string {
    UcxRank self(context, GetParam());
    const int other = 1 - context.rank;
    for (uint64_t round = 1; round <= kRounds; ++round) {
      const std::vector<std::byte> sent(kPayloadBytes, std::byte(round));
      check_ok(self.region(other).put(kPayload, sent, long_deadline()));
      check_ok(self.endpoint(other).fence(long_deadline()));
      check_ok(self.region(other).post(add(kWord, 1), long_deadline()));
      const Deadline end = long_deadline();
      while (self.own_word(kWord) < 2 * round - 1) {
        self.transport->progress();
        if (end.has_passed()) return text("no signal in round ", round);
      }
      if (std::memcmp(self.memory() + kPayload, sent.data(), sent.size()) != 0) {
        return text("signal before data in round ", round);
      }
      // Allows the other side to write again.
      check_ok(self.region(other).post(add(kWord, 1), long_deadline()));
      while (self.own_word(kWord) < 2 * round) {
        if (end.has_passed()) return text("no response in round ", round);
        std::this_thread::yield();  // the transport's thread makes progress
      }
    }
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(UcxProcessDeaths, FailEveryWaiterWithRankNameOverTcp) {
  RankProcesses ranks(3, [&](RankContext& context) -> std::string {
    UcxRank self(context, kTcp);
    if (context.rank == 1) {
      ::raise(SIGKILL);
    }
    // One thread waits for a signal that is never sent; the other threads wait for the dead rank.
    std::vector<std::string> results(3);
    const auto repeat_until_failure = [&](auto operation, std::string& into) {
      const Deadline end = long_deadline();
      Status status;
      while (status.ok() && !end.has_passed()) status = operation();
      into = status.to_string();
    };
    std::vector<std::thread> waiters;
    waiters.emplace_back([&] {
      repeat_until_failure(
          [&] { return self.region(1).fetch(add(0, 1), long_deadline()).status(); }, results[0]);
    });
    waiters.emplace_back([&] {
      std::vector<std::byte> got(kSharedBytes);
      repeat_until_failure([&] { return self.region(1).get(0, got, long_deadline()); }, results[1]);
    });
    waiters.emplace_back(
        [&] { repeat_until_failure([&] { return self.failure->reason(); }, results[2]); });
    for (std::thread& each : waiters) each.join();
    // A rank that exits before its peer has detected the failure would count as lost, too.
    check_ok(context.store->barrier("both-know", 2, kNoExpiry, long_deadline()));
    for (const std::string& each : results) {
      if (each.find("peer lost: rank 1 of group tested") != 0) return text("results: ", each);
    }
    // After the failure, operations on all ranks fail.
    const Status other = self.region(2 - context.rank).put(0, bytes_of(1), long_deadline());
    if (other.message().find("rank 1") == std::string::npos) return other.to_string();
    return "lost";
  });
  EXPECT_THAT(ranks.results(), ::testing::ElementsAre("lost", "killed", "lost"));
}

TEST(UcxProcessDeaths, DoNotHarmSurvivorsUnderLoad) {
  RankProcesses ranks(3, [&](RankContext& context) -> std::string {
    UcxRank self(context, kTcp);
    // All ranks transfer large amounts of data to and from all ranks when rank 1 dies.
    std::vector<std::thread> busy;
    std::atomic<int> count{0};
    std::vector<Status> ends(6);
    for (int t = 0; t < 6; ++t) {
      busy.emplace_back([&, t] {
        std::vector<std::byte> own(kSharedBytes);
        RemoteRegion& other = self.region(t % 3);
        const Deadline end = long_deadline();
        while (ends[t].ok() && !end.has_passed()) {
          ends[t] = t < 3 ? other.get(0, own, long_deadline()) : other.put(0, own, long_deadline());
          count.fetch_add(1);
        }
      });
    }
    if (context.rank == 1) {
      const Deadline end = long_deadline();
      while (count.load() < 12 && !end.has_passed()) std::this_thread::yield();
      if (count.load() >= 12) ::raise(SIGKILL);
    }
    for (std::thread& each : busy) each.join();
    // A rank that exits before its peer has detected the failure would count as lost, too.
    check_ok(context.store->barrier("gone", 2, kNoExpiry, long_deadline()));
    for (const Status& each : ends) {
      if (each.message().find("rank 1 of group tested") != 0) return each.to_string();
    }
    return "lost";
  });
  EXPECT_THAT(ranks.results(), ::testing::ElementsAre("lost", "killed", "lost"));
}

TEST_P(UcxProcesses, StopWaitingForStoppedPeerWhenGroupFails) {
  RankProcesses ranks(2, [&](RankContext& context) -> std::string {
    UcxRank self(context, GetParam());
    if (context.rank == 1) ::raise(SIGSTOP);
    std::thread lease([&] {
      std::this_thread::sleep_for(milliseconds(200));
      self.failure->report(Status::peer_lost("rank 1 gives no sign of life"));
    });
    // Depending on the transport, an operation blocks because the peer must answer, or succeeds
    // until the group fails.
    Status status;
    const Deadline end = long_deadline();
    std::vector<std::byte> got(kSharedBytes);
    while (status.ok() && !end.has_passed()) status = self.region(1).get(0, got, long_deadline());
    lease.join();
    return status.to_string();
  });
  EXPECT_EQ(ranks.results(1)[0], "peer lost: rank 1 gives no sign of life");
}

TEST(UcxProcesses, TimeOutWhenPeerIsStopped) {
  RankProcesses ranks(2, [&](RankContext& context) -> std::string {
    UcxRank self(context, kTcp);
    if (context.rank == 1) ::raise(SIGSTOP);
    const auto call_deadline = [] { return Deadline::after(milliseconds(100)); };
    // The peer may still answer until it is stopped.
    Result<uint64_t> fetched = uint64_t{0};
    const Deadline end = long_deadline();
    while (fetched.ok() && !end.has_passed())
      fetched = self.region(1).fetch(add(0, 1), call_deadline());
    if (!fetched.status().is(StatusKind::kTimeout)) return fetched.status().to_string();
    check_ok(self.region(1).post(add(0, 1), call_deadline()));
    if (!self.endpoint(1).quiet(call_deadline()).is(StatusKind::kTimeout)) return "quiet";
    if (self.failure->has_happened()) return "a timeout must not fail the group";
    std::vector<std::byte> got(100);
    const Status timeout_status = self.region(1).get(0, got, call_deadline());
    if (!timeout_status.is(StatusKind::kTimeout)) return timeout_status.to_string();
    // The data is larger than the buffers of the system and the transport, so a put must time out.
    const std::vector<std::byte> large_data(kSharedBytes);
    Status full;
    while (full.ok() && !end.has_passed())
      full = self.region(1).put(0, large_data, call_deadline());
    return full.to_string();
  });
  EXPECT_EQ(ranks.results(1)[0],
            "timeout: rank 1 of group tested: an earlier put or post got no response before the "
            "deadline");
}

TEST(UcxProcesses, AreLostWhenExitingWithoutLeaving) {
  RankProcesses ranks(2, [&](RankContext& context) -> std::string {
    UcxRank self(context, kTcp);
    if (context.rank == 1) return {};  // exits without leaving
    const Deadline end = long_deadline();
    while (!self.failure->has_happened() && !end.has_passed()) std::this_thread::yield();
    return self.failure->reason().to_string();
  });
  EXPECT_THAT(ranks.results()[0], HasSubstr("peer lost: rank 1 of group tested: the connection"));
}

TEST(UcxProcesses, ForkedChildDropsTransportAndExits) {
  RankProcesses ranks(1, RankMain([](const RankSpec&) -> std::string {
                        std::shared_ptr<Transport> transport =
                            check_ok(try_open_ucx_transport({.transports = kTcp}));
                        ChildProcess child([&](int) {
                          ::alarm(60);  // ends a child that waits for a thread it does not have
                          transport.reset();
                          return 0;
                        });
                        if (child.wait() != 0) return "the child does not exit";
                        transport->progress();
                        return {};
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

// The child has no progress thread, and may inherit a held lock, so all of its calls must fail.
TEST(UcxProcesses, RejectAllCallsInForkedChild) {
  RankProcesses ranks(2, [](RankContext& context) -> std::string {
    UcxRank self(context, kTcp);
    std::string wrong;
    if (context.rank == 0) {
      ChildProcess child([&](int) {
        ::alarm(60);
        const Deadline call_deadline = Deadline::after(seconds(5));
        std::array<std::byte, 8> word{};
        Transport& transport = *self.transport;
        const std::vector<Status> results = {
            transport.share(word).status(),
            transport.address().status(),
            transport.connect("", {0, "tested", self.failure}, call_deadline).status(),
            transport.quiet(call_deadline),
            self.endpoint(1).open("").status(),
            self.endpoint(1).fence(call_deadline),
            self.endpoint(1).quiet(call_deadline),
            self.region(1).put(0, word, call_deadline),
            self.region(1).get(0, word, call_deadline),
            self.region(1).post(add(0, 1), call_deadline),
            self.region(1).fetch(add(0, 1), call_deadline).status()};
        const auto is_rejected = [](const Status& status) {
          return status.is(StatusKind::kInvalidArgument) &&
                 status.message().find("forked") != std::string::npos;
        };
        transport.progress();
        self.endpoint(1).announce_close();
        transport.end();
        { const UcxRank last = std::move(self); }
        const auto accepted = std::ranges::find_if_not(results, is_rejected);
        return accepted == results.end() ? 0 : 1 + static_cast<int>(accepted - results.begin());
      });
      const int ended = child.wait();
      if (ended != 0) wrong = text("the child exited with ", ended);
    }
    self.barrier();
    check_ok(self.region(1 - context.rank).post(add(0, 1), long_deadline()));
    self.leave();
    return wrong;
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(UcxProcesses, MayExitAfterLeaving) {
  RankProcesses ranks(2, [&](RankContext& context) -> std::string {
    UcxRank self(context, kTcp);
    self.leave();
    if (context.rank == 1) return {};
    const Deadline end = long_deadline();
    Status status;
    while (status.ok() && !end.has_passed())
      status = self.region(1).put(0, bytes_of(1), long_deadline());
    return self.failure->has_happened() ? "a farewell must not fail the group" : status.to_string();
  });
  EXPECT_THAT(ranks.results()[0], HasSubstr("peer lost: rank 1"));
}

}  // namespace
}  // namespace ashlar::symm
