// SPDX-License-Identifier: Apache-2.0
//
// A rank that forks: its child has none of its threads, and leaves what it inherited alone.
#include <unistd.h>

#include <utility>

#include "mp/forked_rank.h"

namespace ashlar::symm {
namespace {

TEST(SymmetricFork, AChildIsRefusedAndItsEndLeavesTheGroupAlone) {
  Ranks ranks(2, with_memory(4096, fork_and_go_on));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

// It has no rank of another process to talk to, but threads all the same.
TEST(SymmetricFork, AChildOfARankThatIsAloneEndsToo) {
  Ranks ranks(1, [](const BareRank& rank) -> std::string {
    Heap heap(SymmetricRank::heap_options());
    Group group = Group::join(heap, rank.store, SymmetricRank::group_options(rank));
    ChildProcess child([&](int) {
      ::alarm(60);
      const Group last = std::move(group);
      return 0;
    });
    if (child.wait() != 0) return "the child does not end";
    group.leave(kPatience);
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
  EXPECT_THAT(ranks.left_in_store(), IsEmpty());
}

TEST(SymmetricFork, AChildDropsAHeapThatNoGroupHas) {
  Ranks ranks(1, BareBody([](const BareRank&) -> std::string {
                Heap heap(SymmetricRank::heap_options());
                Buffer buffer = heap.allocate(64);
                ChildProcess child([&](int) {
                  ::alarm(60);
                  buffer.reset();
                  const Heap last = std::exchange(heap, Heap(SymmetricRank::heap_options()));
                  return 0;
                });
                if (child.wait() != 0) return "the child does not end";
                buffer.as<int>()[0] = 1;
                return heap.live_count() == 1 ? "" : "another number of buffers";
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
