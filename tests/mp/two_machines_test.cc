// SPDX-License-Identifier: Apache-2.0
//
// Tests the UCX transport between two machines (network namespaces), without groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "mp/harness/two_machines.h"
#include "mp/harness/ucx_ranks.h"

namespace ashlar::symm {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TwoMachinesTest, PutsGetsAndAddsAcrossMachines) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  RankProcesses ranks(4, [&](RankContext& context) -> std::string {
    machines.enter(context.rank % 2);
    UcxRank self(context, "tcp", TwoMachines::cable(context.rank % 2));
    const size_t part = kSharedBytes / 4;
    const std::vector<std::byte> sent(part - 8, std::byte(10 + context.rank));
    for (int rank = 0; rank < 4; ++rank) {
      check_ok(self.region(rank).put(part * context.rank + 8, sent, long_deadline()));
      check_ok(self.endpoint(rank).fence(long_deadline()));
      check_ok(self.region(rank).post({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, long_deadline()));
    }
    // Once all ranks have signaled, their data has arrived.
    const Deadline end = long_deadline();
    while (self.own_word(0) < 4) {
      self.transport->progress();
      if (end.has_passed()) return "no signal";
    }
    for (int rank = 0; rank < 4; ++rank) {
      const std::vector<std::byte> expected(part - 8, std::byte(10 + rank));
      if (std::memcmp(self.memory() + part * rank + 8, expected.data(), expected.size()) != 0) {
        return text("wrong data from rank ", rank);
      }
    }
    self.barrier();
    std::vector<std::byte> got(part);
    check_ok(self.region((context.rank + 1) % 4).get(part * 2, got, long_deadline()));
    if (got[part - 1] != std::byte{12}) return "get";
    const AtomicOp swap{AtomicKind::kCompareAndSwap, WordBytes::k8, 0, 100, 4};
    if (context.rank == 3 && check_ok(self.region(0).fetch(swap, long_deadline())) != 4)
      return "swap";
    self.barrier();
    if (context.rank == 0 && self.own_word(0) != 100) return "swapped";
    self.leave();
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(TwoMachinesTest, NamesDeadRemoteRank) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  RankProcesses ranks(2, [&](RankContext& context) -> std::string {
    machines.enter(context.rank);
    UcxRank self(context, "tcp", TwoMachines::cable(context.rank));
    if (context.rank == 1) ::raise(SIGKILL);
    const Deadline end = long_deadline();
    while (!self.failure->has_happened() && !end.has_passed()) ::usleep(1000);
    return self.failure->reason().to_string();
  });
  EXPECT_THAT(ranks.results()[0], HasSubstr("peer lost: rank 1 of group tested"));
}

TEST(TwoMachinesTest, CutCableTimesOutAndNamesRank) {
  const TwoMachines machines;
  ASHLAR_NEED(machines);
  RankProcesses ranks(2, [&](RankContext& context) -> std::string {
    machines.enter(context.rank);
    UcxRank self(context, "tcp", TwoMachines::cable(context.rank));
    if (context.rank == 0 && !machines.cut()) return "not cut";
    self.barrier();
    const Deadline short_wait = Deadline::after(std::chrono::milliseconds(200));
    const Status timeout_status = self.region(1 - context.rank)
                                      .fetch({AtomicKind::kAdd, WordBytes::k8, 0, 1, 0}, short_wait)
                                      .status();
    self.barrier();
    return timeout_status.to_string();
  });
  EXPECT_THAT(ranks.results(),
              ::testing::ElementsAre(HasSubstr("timeout: rank 1 of group tested: an atomic"),
                                     HasSubstr("timeout: rank 0 of group tested: an atomic")));
}

}  // namespace
}  // namespace ashlar::symm
