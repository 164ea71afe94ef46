// SPDX-License-Identifier: Apache-2.0
//
// The transport between two machines, by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "mp/two_machines.h"
#include "mp/ucx_ranks.h"

namespace ashlar::symm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TwoMachinesTest, PutGetAndAddAcross) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  Ranks ranks(4, [&](RankParts& parts) -> std::string {
    machines.enter(parts.rank % 2);
    UcxRank self(parts, "tcp", TwoMachines::cable(parts.rank % 2));
    const size_t part = kSharedBytes / 4;
    const std::vector<std::byte> sent(part - 8, std::byte(10 + parts.rank));
    for (int rank = 0; rank < 4; ++rank) {
      must(self.at(rank).put(part * parts.rank + 8, sent, patience()));
      must(self.endpoint(rank).fence(patience()));
      must(self.at(rank).post({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, patience()));
    }
    // Everybody's signal, and with it everybody's data.
    const Deadline end = patience();
    while (self.own_word(0) < 4) {
      self.transport->progress();
      if (end.has_passed()) return "no signal";
    }
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<std::byte> expected(part - 8, std::byte(10 + rank));
      if (std::memcmp(self.own() + part * rank + 8, expected.data(), expected.size()) != 0) {
        return text("not what rank ", rank, " put");
      }
    }
    self.barrier();
    std::vector<std::byte> got(part);
    must(self.at((parts.rank + 1) % 4).get(part * 2, got, patience()));
    if (got[part - 1] != std::byte{12}) return "get";
    const AtomicOp swap{AtomicKind::kCompareAndSwap, WordBytes::k8, 0, 100, 4};
    if (parts.rank == 3 && must(self.at(0).fetch(swap, patience())) != 4) return "swap";
    self.barrier();
    if (parts.rank == 0 && self.own_word(0) != 100) return "swapped";
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(TwoMachinesTest, ADeathOnTheOtherOneIsToldByName) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    machines.enter(parts.rank);
    UcxRank self(parts, "tcp", TwoMachines::cable(parts.rank));
    if (parts.rank == 1) ::raise(SIGKILL);
    const Deadline end = patience();
    while (!self.failure->has_happened() && !end.has_passed()) ::usleep(1000);
    return self.failure->reason().to_string();
  });
  EXPECT_THAT(ranks.outcomes()[0], HasSubstr("peer lost: rank 1 of group tested"));
}

TEST(TwoMachinesTest, ACutCableIsATimeoutThatNamesTheRank) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  Ranks ranks(2, [&](RankParts& parts) -> std::string {
    machines.enter(parts.rank);
    UcxRank self(parts, "tcp", TwoMachines::cable(parts.rank));
    if (parts.rank == 0 && !machines.cut()) return "not cut";
    self.barrier();
    const Deadline soon = Deadline::after(std::chrono::milliseconds(200));
    const Status late =
        self.at(1 - parts.rank).fetch({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, soon).status();
    self.barrier();
    return late.to_string();
  });
  EXPECT_THAT(ranks.outcomes(),
              ::testing::ElementsAre(HasSubstr("timeout: rank 1 of group tested: an atomic"),
                                     HasSubstr("timeout: rank 0 of group tested: an atomic")));
}

}  // namespace
}  // namespace ashlar::symm
