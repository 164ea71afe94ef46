// SPDX-License-Identifier: Apache-2.0
//
// Row 17 of the checklist of symmetric memory with real processes: pools decide alike on all ranks,
// and ranks that did different things are told so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "mp/symmetric_program.h"
#include "mp/symmetric_rank.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kSegmentBytes = size_t{64} * 1024;

class SymmetricPool : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricPool, ::testing::Values(1, 2, 3, 5),
                         ::testing::PrintToStringParamName());

// Collective: what each rank wrote into its buffer, the next one reads at the handle's place.
std::string exchange_by(const Handle& handle, const Buffer& buffer, int mark) {
  const int count = handle.world_size();
  const int next = (handle.rank() + 1) % count;
  const auto words = buffer.as<int>();
  std::ranges::fill(words, mark * 100 + handle.rank());
  handle.barrier(0, kPatience);
  const auto theirs = handle.view<int>(next, static_cast<int64_t>(words.size()));
  const bool is_right =
      std::ranges::all_of(theirs, [&](int each) { return each == mark * 100 + next; });
  handle.barrier(0, kPatience);
  return is_right ? "" : "not the next one's buffer";
}

TEST_P(SymmetricPool, Row17ReuseIsDeterministicWhateverTheAddressesAre) {
  Ranks ranks(GetParam(), with_memory(8, [](SymmetricRank& own) -> std::string {
                // Other memory of each rank's own moves its addresses.
                const std::vector<char> elsewhere(size_t{1} << (16 + own.group.rank()));
                Pool pool(own.heap, {.name = "pool", .segment_bytes = kSegmentBytes});
                std::mt19937 random(7);  // the same on all ranks
                std::vector<Buffer> live;
                for (int round = 0; round < 60; ++round) {
                  if (live.size() > 6) live.erase(live.begin() + random() % live.size());
                  live.push_back(pool.allocate(4 + random() % (kSegmentBytes + 5000)));
                  const Handle handle = own.group.rendezvous(live.back(), kPatience);
                  std::string wrong = exchange_by(handle, live.back(), round);
                  if (!wrong.empty()) return wrong;
                }
                if (pool.stats().segment_count < 2) return "it did not grow";
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST_P(SymmetricPool, Row17InteriorPointersHaveAnOffsetAndAllOperationsHonourIt) {
  Ranks ranks(GetParam(), [](const BareRank& rank) -> std::string {
    SymmetricRank own(rank, 8);
    Pool pool(own.heap);
    const Buffer before = pool.allocate(1000);
    Buffer buffer = pool.allocate(kProgramBytes);
    const Buffer after = pool.allocate(1000);
    std::ranges::fill(before.as<char>(), 'b');
    std::ranges::fill(after.as<char>(), 'a');
    const Handle handle = own.group.rendezvous(buffer, kPatience);
    if (handle.offset() != 1024) return "another offset";
    const Handle inside = own.group.rendezvous(buffer.data() + 256, milliseconds(1));
    if (inside.offset() != 1280) return "another offset inside";
    // The program works on the rank's buffer, wherever that is from.
    own.buffer = std::move(buffer);
    own.handle = handle;
    if (std::string wrong = run_program(own); !wrong.empty()) return wrong;
    const auto is_all = [](const Buffer& each, char mark) {
      return std::ranges::all_of(each.as<char>(), [mark](char byte) { return byte == mark; });
    };
    if (!is_all(before, 'b') || !is_all(after, 'a')) return "a neighbour was written to";
    // What lies behind the buffer is another's.
    std::byte one{};
    const std::string outside = thrown_by([&] {
      handle.put(0, {&one, 1}, static_cast<int64_t>(kProgramBytes));
    });
    if (outside.find("the handle covers 65536 bytes") == std::string::npos) {
      return "not refused: " + outside;
    }
    own.group.barrier(0, kPatience);
    own.buffer.reset();
    own.group.leave(kPatience);
    return {};
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));  // they say so if something stays mapped
}

TEST(SymmetricPool, Row17OneExchangeServesAllBuffersOfASegment) {
  Ranks ranks(3, with_memory(8, [](SymmetricRank& own) -> std::string {
                Pool pool(own.heap, {.name = "pool", .segment_bytes = kSegmentBytes});
                const Buffer first = pool.allocate(100);
                const Handle handle = own.group.rendezvous(first, kPatience);
                const size_t mapped = symmetric_mapping_count();
                std::vector<Buffer> others;
                for (int i = 0; i < 20; ++i) {
                  others.push_back(pool.allocate(100));
                  const Handle other = own.group.rendezvous(others.back(), kPatience);
                  if (other.buffer_ptrs() != handle.buffer_ptrs()) return "mapped elsewhere";
                }
                own.group.barrier(0, kPatience);
                return symmetric_mapping_count() == mapped ? "" : "mapped again";
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricPool, Row17TheFirstDifferenceIsNamedWithRanksAndValuesAndAllGoOn) {
  Ranks ranks(3, with_memory(8, [](SymmetricRank& own) -> std::string {
                Pool pool(own.heap, {.name = "tensors", .segment_bytes = kSegmentBytes});
                std::vector<Buffer> all;
                for (int i = 0; i < 3; ++i) all.push_back(pool.allocate(512));
                (void)own.group.rendezvous(all[0], kPatience);
                // Rank 1 frees another one; the next buffer of the same size goes there.
                all[own.group.rank() == 1 ? 2 : 1].reset();
                const Buffer next = pool.allocate(512);
                const std::string said =
                    thrown_by([&] { (void)own.group.rendezvous(next, kPatience); });
                // What came before is as good as it was.
                const Handle handle = own.group.rendezvous(all[0], kPatience);
                if (std::string wrong = exchange_by(handle, all[0], 3); !wrong.empty())
                  return wrong;
                return said;
              }));
  EXPECT_THAT(
      ranks.outcomes(),
      Each(AllOf(HasSubstr("invalid argument"), HasSubstr("pool tensors, first in call 3: "),
                 HasSubstr("rank 0 freed buffer 1, rank 1 freed buffer 2, rank 2 freed"))));
}

// The sizes agree, and so do the places: only the hash tells.
TEST(SymmetricPool, Row17AnotherPastIsFoundThoughThePlaceIsTheSame) {
  Ranks ranks(2, with_memory(8, [](SymmetricRank& own) -> std::string {
                Pool pool(own.heap, {.name = "pool", .segment_bytes = kSegmentBytes});
                { const Buffer passing = pool.allocate(own.group.rank() == 0 ? 640 : 512); }
                const Buffer buffer = pool.allocate(512);
                return thrown_by([&] { (void)own.group.rendezvous(buffer, kPatience); });
              }));
  EXPECT_THAT(ranks.outcomes(),
              Each(HasSubstr("act 0: rank 0 allocated 640 bytes, rank 1 allocated 512 bytes")));
}

TEST(SymmetricPool, Row17RanksThatMeanDifferentBuffersAreTold) {
  Ranks ranks(
      2, with_memory(512, [](SymmetricRank& own) -> std::string {
        Pool pool(own.heap, {.name = "pool", .segment_bytes = kSegmentBytes});
        Pool other(own.heap, {.name = "other", .segment_bytes = kSegmentBytes});
        const Buffer first = pool.allocate(512);
        const Buffer second = pool.allocate(512);
        const Buffer elsewhere = other.allocate(512);
        const bool is_first = own.group.rank() == 0;
        std::string said =
            thrown_by([&] { (void)own.group.rendezvous(is_first ? first : second, kPatience); });
        if (said.find("order of allocation: rank 0: 0, rank 1: 1") == std::string::npos) {
          return said;
        }
        said =
            thrown_by([&] { (void)own.group.rendezvous(is_first ? first : elsewhere, kPatience); });
        if (said.find("rank 0: pool pool, rank 1: pool other") == std::string::npos) {
          return said;
        }
        const Handle one = own.group.rendezvous(first, kPatience);
        const Handle two = own.group.rendezvous(second, kPatience);
        // And every collective compares again, offsets and all.
        said = thrown_by([&] {
          (is_first ? one : two)
              .all_reduce(1, {}, {.offset_bytes = is_first ? 128 : 0, .timeout = kPatience});
        });
        return said.find("call different things") == std::string::npos ? said : "";
      }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricPool, Row17NamesAndSizesAreChecked) {
  Ranks ranks(
      1, with_memory(8, [](SymmetricRank& own) -> std::string {
        std::optional<Pool> pool(std::in_place, own.heap, PoolOptions{});
        const std::string again = thrown_by([&] { const Pool second(own.heap); });
        if (again.find("has a pool called pool") == std::string::npos) return again;
        const std::string empty = thrown_by([&] { const Pool bad(own.heap, {.name = ""}); });
        if (empty.find("expected 1 to 256") == std::string::npos) return empty;
        const std::string none =
            thrown_by([&] { const Pool bad(own.heap, {.name = "bad", .segment_bytes = 0}); });
        if (none.find("segments of 0 bytes") == std::string::npos) return none;
        // What is a group's is not counted among a pool's segments, whatever it is called.
        const std::string taken = thrown_by(
            [&] { (void)own.heap.allocate(8, {.group = "pool pool", .persistent_id = {}}); });
        if (taken.find("group 'pool pool': expected 1 to 64") == std::string::npos) return taken;
        Buffer lives_on = pool->allocate(16);
        pool.reset();
        lives_on.as<int>()[0] = 1;
        (void)own.group.rendezvous(lives_on, kPatience);
        lives_on.reset();
        const Pool successor(own.heap);
        return {};
      }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
