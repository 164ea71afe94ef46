// SPDX-License-Identifier: Apache-2.0
//
// A rank forks. The child has none of the rank's threads, and must not affect the objects that it
// inherits.
#include <unistd.h>

#include <utility>

#include "mp/harness/fork_scenario.h"

namespace ashlar::symm {
namespace {

TEST(SymmetricFork, ChildIsRejectedAndGroupSurvivesItsExit) {
  RankProcesses ranks(2, with_memory(4096, run_fork_scenario));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

// A single rank has no peers, but has threads, which its child lacks and must not wait for.
TEST(SymmetricFork, ChildOfSingleRankExits) {
  RankProcesses ranks(1, [](const RankSpec& rank) -> std::string {
    Heap heap(SymmetricRank::heap_options());
    Group group = Group::join(heap, rank.store, SymmetricRank::group_options(rank));
    ChildProcess child([&](int) {
      ::alarm(60);
      const Group last = std::move(group);
      return 0;
    });
    if (child.wait() != 0) return "the child does not exit";
    group.leave(kTestTimeout);
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
  EXPECT_THAT(ranks.store_keys(), IsEmpty());
}

TEST(SymmetricFork, ChildDropsHeapWithoutGroup) {
  RankProcesses ranks(1, RankMain([](const RankSpec&) -> std::string {
                        Heap heap(SymmetricRank::heap_options());
                        SymmetricBuffer buffer = heap.allocate(64);
                        ChildProcess child([&](int) {
                          ::alarm(60);
                          buffer.reset();
                          const Heap last =
                              std::exchange(heap, Heap(SymmetricRank::heap_options()));
                          return 0;
                        });
                        if (child.wait() != 0) return "the child does not exit";
                        buffer.as<int>()[0] = 1;
                        return heap.live_count() == 1 ? "" : "wrong number of buffers";
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
