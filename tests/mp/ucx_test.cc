// SPDX-License-Identifier: Apache-2.0
//
// The transport between real processes: what they do to each other's memory, and how they die.
// Over TCP as between machines, and over UCX's shared memory, which cannot tell deaths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "mp/ucx_ranks.h"

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

TEST_P(UcxProcesses, PutAndGetWhatTheyMean) {
  Ranks ranks(3, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, GetParam());
    // Each rank has its part in everybody's memory. Sizes go from one byte to more than one packet.
    const size_t part = kSharedBytes / 4;
    for (int rank = 0; rank < parts.world_size; ++rank) {
      std::vector<std::byte> sent(part, std::byte(10 + parts.rank));
      size_t offset = part * parts.rank;
      for (size_t bytes : {size_t{1}, size_t{7}, size_t{8}, size_t{4096}, size_t{100'000}}) {
        must(self.at(rank).put(offset, {sent.data(), bytes}, patience()));
        offset += bytes;
      }
      std::fill(sent.begin(), sent.end(), std::byte{99});  // may be used again: nobody is to see it
    }
    must(self.transport->quiet(patience()));
    self.barrier();
    const size_t written = 1 + 7 + 8 + 4096 + 100'000;
    for (int rank = 0; rank < parts.world_size; ++rank) {
      std::vector<std::byte> got(kSharedBytes);
      must(self.at(rank).get(0, got, patience()));
      for (size_t i = 0; i < got.size(); ++i) {
        const bool is_written = i < 3 * part && i % part < written;
        const auto expected = std::byte(is_written ? 10 + i / part : 0);
        if (got[i] != expected) return text("byte ", i, " of rank ", rank);
      }
    }
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST_P(UcxProcesses, AddAndSwapAtomically) {
  constexpr int kTimes = 200;
  Ranks ranks(3, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, GetParam());
    RemoteRegion& zero = self.at(0);
    for (int i = 0; i < kTimes; ++i) {
      must(zero.post(add(0, 3), patience()));
      must(zero.post(add(8, 5, WordBytes::k4), patience()));
      must(zero.fetch(add(16, 1), patience()));
      // A counter by compare-and-swap, in 64 bits and in 32.
      for (WordBytes word : {WordBytes::k8, WordBytes::k4}) {
        AtomicOp call{AtomicKind::kCompareAndSwap, word, word == WordBytes::k8 ? 24U : 32U, 1, 0};
        for (;;) {
          const uint64_t found = must(zero.fetch(call, patience()));
          if (found == call.expected) break;
          call.expected = found;
          call.operand = found + 1;
        }
      }
    }
    must(self.endpoint(0).quiet(patience()));
    self.barrier();
    if (parts.rank == 0) {
      const uint64_t all = uint64_t{3} * kTimes;
      if (self.own_word(0) != 3 * all) return text("posted: ", self.own_word(0));
      if (self.own_word(8) != 5 * all) return text("32 bits: ", self.own_word(8));
      if (self.own_word(16) != all) return text("fetched: ", self.own_word(16));
      if (self.own_word(24) != all) return text("compared: ", self.own_word(24));
      if (self.own_word(32) != all) return text("compared in 32 bits: ", self.own_word(32));
    }
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST_P(UcxProcesses, SeeWhatWasPutBeforeTheFenceWhenTheySeeTheSignal) {
  constexpr uint64_t kRounds = 300;
  constexpr size_t kWord = 0;
  constexpr size_t kPayload = 64;
  constexpr size_t kPayloadBytes = 20'000;
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, GetParam());
    const int other = 1 - parts.rank;
    for (uint64_t round = 1; round <= kRounds; ++round) {
      const std::vector<std::byte> sent(kPayloadBytes, std::byte(round));
      must(self.at(other).put(kPayload, sent, patience()));
      must(self.endpoint(other).fence(patience()));
      must(self.at(other).post(add(kWord, 1), patience()));
      const Deadline end = patience();
      while (self.own_word(kWord) < 2 * round - 1) {
        self.transport->progress();
        if (end.has_passed()) return text("no signal in round ", round);
      }
      if (std::memcmp(self.own() + kPayload, sent.data(), sent.size()) != 0) {
        return text("signal before data in round ", round);
      }
      // Only then may the other side write again.
      must(self.at(other).post(add(kWord, 1), patience()));
      while (self.own_word(kWord) < 2 * round) {
        if (end.has_passed()) return text("no answer in round ", round);
        std::this_thread::yield();  // the transport's own thread does it, too
      }
    }
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(UcxProcessesDeaths, FailEveryWaiterWithTheRanksNameOverTcp) {
  Ranks ranks(3, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, kTcp);
    if (parts.rank == 1) {
      ::raise(SIGKILL);
    }
    // One waits for what never comes, the others for what the dead one should do.
    std::vector<std::string> said(3);
    const auto until_it_fails = [&](auto act, std::string& into) {
      const Deadline end = patience();
      Status status;
      while (status.ok() && !end.has_passed()) status = act();
      into = status.to_string();
    };
    std::vector<std::thread> waiters;
    waiters.emplace_back([&] {
      until_it_fails([&] { return self.at(1).fetch(add(0, 1), patience()).status(); }, said[0]);
    });
    waiters.emplace_back([&] {
      std::vector<std::byte> got(kSharedBytes);
      until_it_fails([&] { return self.at(1).get(0, got, patience()); }, said[1]);
    });
    waiters.emplace_back([&] { until_it_fails([&] { return self.failure->reason(); }, said[2]); });
    for (std::thread& each : waiters) each.join();
    // Whoever goes before the other knows is lost to it, too.
    must(parts.store->barrier("both-know", 2, kNoEnd, patience()));
    for (const std::string& each : said) {
      if (each.find("peer lost: rank 1 of group tested") != 0) return text("said: ", each);
    }
    // The group is over, whomever one asks.
    const Status other = self.at(2 - parts.rank).put(0, bytes_of(1), patience());
    if (other.message().find("rank 1") == std::string::npos) return other.to_string();
    return "lost";
  });
  EXPECT_THAT(ranks.outcomes(), ::testing::ElementsAre("lost", "killed", "lost"));
}

TEST(UcxProcessesDeaths, InTheMiddleOfEverythingHurtNobodyElse) {
  Ranks ranks(3, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, kTcp);
    // Everybody reads and writes everybody's memory, much of it, when rank 1 dies.
    std::vector<std::thread> busy;
    std::atomic<int> count{0};
    std::vector<Status> ends(6);
    for (int t = 0; t < 6; ++t) {
      busy.emplace_back([&, t] {
        std::vector<std::byte> own(kSharedBytes);
        RemoteRegion& other = self.at(t % 3);
        const Deadline end = patience();
        while (ends[t].ok() && !end.has_passed()) {
          ends[t] = t < 3 ? other.get(0, own, patience()) : other.put(0, own, patience());
          count.fetch_add(1);
        }
      });
    }
    if (parts.rank == 1) {
      const Deadline end = patience();
      while (count.load() < 12 && !end.has_passed()) std::this_thread::yield();
      if (count.load() >= 12) ::raise(SIGKILL);
    }
    for (std::thread& each : busy) each.join();
    // One who goes earlier is the next that is lost.
    must(parts.store->barrier("gone", 2, kNoEnd, patience()));
    for (const Status& each : ends) {
      if (each.message().find("rank 1 of group tested") != 0) return each.to_string();
    }
    return "lost";
  });
  EXPECT_THAT(ranks.outcomes(), ::testing::ElementsAre("lost", "killed", "lost"));
}

TEST_P(UcxProcesses, FailWhenTheGroupDoesWhileTheyWaitForOneThatStands) {
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, GetParam());
    if (parts.rank == 1) ::raise(SIGSTOP);
    std::thread lease([&] {
      std::this_thread::sleep_for(milliseconds(200));
      self.failure->report(Status::peer_lost("rank 1 gives no sign of life"));
    });
    // Where the other side has to answer, this never ends by itself; where not, it goes on and on.
    Status status;
    const Deadline end = patience();
    std::vector<std::byte> got(kSharedBytes);
    while (status.ok() && !end.has_passed()) status = self.at(1).get(0, got, patience());
    lease.join();
    return status.to_string();
  });
  EXPECT_EQ(ranks.outcomes(1)[0], "peer lost: rank 1 gives no sign of life");
}

TEST(UcxProcesses, EndByTheirDeadlineWhenTheOtherSideStands) {
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, kTcp);
    if (parts.rank == 1) ::raise(SIGSTOP);
    const auto soon = [] { return Deadline::after(milliseconds(100)); };
    // Until it stands, it may answer.
    Result<uint64_t> fetched = uint64_t{0};
    const Deadline end = patience();
    while (fetched.ok() && !end.has_passed()) fetched = self.at(1).fetch(add(0, 1), soon());
    if (!fetched.status().is(StatusKind::kTimeout)) return fetched.status().to_string();
    must(self.at(1).post(add(0, 1), soon()));
    if (!self.endpoint(1).quiet(soon()).is(StatusKind::kTimeout)) return "quiet";
    if (self.failure->has_happened()) return "slow is not dead";
    std::vector<std::byte> got(100);
    const Status late = self.at(1).get(0, got, soon());
    if (!late.is(StatusKind::kTimeout)) return late.to_string();
    // More than the system's buffers and ours hold.
    const std::vector<std::byte> much(kSharedBytes);
    Status full;
    while (full.ok() && !end.has_passed()) full = self.at(1).put(0, much, soon());
    return full.to_string();
  });
  EXPECT_EQ(ranks.outcomes(1)[0],
            "timeout: rank 1 of group tested: what was sent earlier was not answered before the "
            "deadline");
}

TEST(UcxProcesses, AreLostForThoseToWhomTheyDidNotSayFarewell) {
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, kTcp);
    if (parts.rank == 1) return {};  // goes without a word
    const Deadline end = patience();
    while (!self.failure->has_happened() && !end.has_passed()) std::this_thread::yield();
    return self.failure->reason().to_string();
  });
  EXPECT_THAT(ranks.outcomes()[0], HasSubstr("peer lost: rank 1 of group tested: the connection"));
}

TEST(UcxProcesses, EndInAForkedChildWithoutATransportThatIsTheParents) {
  Ranks ranks(1, BareBody([](const BareRank&) -> std::string {
                std::shared_ptr<Transport> transport =
                    must(open_ucx_transport({.transports = kTcp}));
                ChildProcess child([&](int) {
                  ::alarm(60);  // instead of waiting for ever for a thread that is not there
                  transport.reset();
                  return 0;
                });
                if (child.wait() != 0) return "the child does not end";
                transport->progress();
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// The thread that would answer it is its parent's, and so may be a lock.
TEST(UcxProcesses, AreRefusedInAForkedChildWhateverTheyAskOfTheParents) {
  Ranks ranks(2, [](RankParts& parts) -> std::string {
    UcxRank self(parts, kTcp);
    std::string wrong;
    if (parts.rank == 0) {
      ChildProcess child([&](int) {
        ::alarm(60);
        const Deadline soon = Deadline::after(seconds(5));
        std::array<std::byte, 8> word{};
        Transport& transport = *self.transport;
        const std::vector<Status> refused = {
            transport.share(word).status(),
            transport.connect(transport.address(), {0, "tested", self.failure}, soon).status(),
            transport.quiet(soon),
            self.endpoint(1).open("").status(),
            self.endpoint(1).fence(soon),
            self.endpoint(1).quiet(soon),
            self.at(1).put(0, word, soon),
            self.at(1).get(0, word, soon),
            self.at(1).post(add(0, 1), soon),
            self.at(1).fetch(add(0, 1), soon).status()};
        const auto is_refused = [](const Status& said) {
          return said.is(StatusKind::kInvalidArgument) &&
                 said.message().find("forked") != std::string::npos;
        };
        transport.progress();
        self.endpoint(1).announce_close();
        transport.end();
        { const UcxRank last = std::move(self); }
        const auto not_refused = std::ranges::find_if_not(refused, is_refused);
        return not_refused == refused.end() ? 0
                                            : 1 + static_cast<int>(not_refused - refused.begin());
      });
      const int ended = child.wait();
      if (ended != 0) wrong = text("the child ended with ", ended);
    }
    self.barrier();
    must(self.at(1 - parts.rank).post(add(0, 1), patience()));
    self.leave();
    return wrong;
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(UcxProcesses, MayGoAfterAFarewell) {
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    UcxRank self(parts, kTcp);
    self.leave();
    if (parts.rank == 1) return {};
    const Deadline end = patience();
    Status status;
    while (status.ok() && !end.has_passed()) status = self.at(1).put(0, bytes_of(1), patience());
    return self.failure->has_happened() ? "a farewell is no failure" : status.to_string();
  });
  EXPECT_THAT(ranks.outcomes()[0], HasSubstr("peer lost: rank 1"));
}

}  // namespace
}  // namespace ashlar::symm
