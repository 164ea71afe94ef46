// SPDX-License-Identifier: Apache-2.0
//
// Pools of symmetric memory in several processes: equal layout on all ranks, and detection of ranks
// that used a pool differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "mp/harness/symmetric_program.h"
#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kSegmentBytes = size_t{64} * 1024;

class SymmetricPoolTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricPoolTest, ::testing::Values(1, 2, 3, 5),
                         ::testing::PrintToStringParamName());

// Collective. Each rank writes its buffer and reads the buffer of the next rank through the handle.
std::string check_exchange(const Handle& handle, const SymmetricBuffer& buffer, int mark) {
  const int count = handle.world_size();
  const int next = (handle.rank() + 1) % count;
  const auto words = buffer.as<int>();
  std::ranges::fill(words, mark * 100 + handle.rank());
  handle.barrier(0, kTestTimeout);
  const auto theirs = handle.view<int>(next, static_cast<int64_t>(words.size()));
  const bool is_right =
      std::ranges::all_of(theirs, [&](int each) { return each == mark * 100 + next; });
  handle.barrier(0, kTestTimeout);
  return is_right ? "" : "wrong buffer of the next rank";
}

TEST_P(SymmetricPoolTest, ReusesMemoryDeterministically) {
  RankProcesses ranks(GetParam(), with_memory(8, [](SymmetricRank& own) -> std::string {
                        // An allocation of different size on each rank changes its address layout.
                        const std::vector<char> elsewhere(size_t{1} << (16 + own.group.rank()));
                        SymmetricPool pool(own.heap,
                                           {.name = "pool", .segment_bytes = kSegmentBytes});
                        std::mt19937 random(7);  // the same on all ranks
                        std::vector<SymmetricBuffer> live;
                        for (int round = 0; round < 60; ++round) {
                          if (live.size() > 6) live.erase(live.begin() + random() % live.size());
                          live.push_back(pool.allocate(4 + random() % (kSegmentBytes + 5000)));
                          const Handle handle = own.group.rendezvous(live.back(), kTestTimeout);
                          std::string wrong = check_exchange(handle, live.back(), round);
                          if (!wrong.empty()) return wrong;
                        }
                        if (pool.stats().segment_count < 2) return "the pool did not grow";
                        return {};
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_P(SymmetricPoolTest, HonoursOffsetsOfInteriorPointers) {
  RankProcesses ranks(GetParam(), [](const RankSpec& rank) -> std::string {
    SymmetricRank own(rank, 8);
    SymmetricPool pool(own.heap);
    const SymmetricBuffer before = pool.allocate(1000);
    SymmetricBuffer buffer = pool.allocate(kProgramBytes);
    const SymmetricBuffer after = pool.allocate(1000);
    std::ranges::fill(before.as<char>(), 'b');
    std::ranges::fill(after.as<char>(), 'a');
    const Handle handle = own.group.rendezvous(buffer, kTestTimeout);
    if (handle.offset() != 1024) return "wrong offset";
    const Handle inside = own.group.rendezvous(buffer.data() + 256, milliseconds(1));
    if (inside.offset() != 1280) return "wrong offset";
    // The program uses own.buffer, whether it is from a heap or a pool.
    own.buffer = std::move(buffer);
    own.handle = handle;
    if (std::string wrong = run_program(own); !wrong.empty()) return wrong;
    const auto is_all = [](const SymmetricBuffer& each, char mark) {
      return std::ranges::all_of(each.as<char>(), [mark](char byte) { return byte == mark; });
    };
    if (!is_all(before, 'b') || !is_all(after, 'a')) return "a neighbouring buffer was written";
    // The memory just past the end of the buffer belongs to another buffer.
    std::byte one{};
    const std::string outside = error_message([&] {
      handle.put(0, {&one, 1}, static_cast<int64_t>(kProgramBytes));
    });
    if (outside.find("the handle covers 65536 bytes") == std::string::npos) {
      return "not rejected: " + outside;
    }
    own.group.barrier(0, kTestTimeout);
    own.buffer.reset();
    own.group.leave(kTestTimeout);
    return {};
  });
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));  // a result lists leaked mappings
}

TEST(SymmetricPoolTest, ExchangesEachSegmentOnce) {
  RankProcesses ranks(3, with_memory(8, [](SymmetricRank& own) -> std::string {
                        SymmetricPool pool(own.heap,
                                           {.name = "pool", .segment_bytes = kSegmentBytes});
                        const SymmetricBuffer first = pool.allocate(100);
                        const Handle handle = own.group.rendezvous(first, kTestTimeout);
                        const size_t mapped = symmetric_mapping_count();
                        std::vector<SymmetricBuffer> others;
                        for (int i = 0; i < 20; ++i) {
                          others.push_back(pool.allocate(100));
                          const Handle other = own.group.rendezvous(others.back(), kTestTimeout);
                          if (other.buffer_ptrs() != handle.buffer_ptrs())
                            return "mapped elsewhere";
                        }
                        own.group.barrier(0, kTestTimeout);
                        return symmetric_mapping_count() == mapped ? "" : "mapped twice";
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricPoolTest, NamesFirstDifferenceBetweenRanks) {
  RankProcesses ranks(3, with_memory(8, [](SymmetricRank& own) -> std::string {
                        SymmetricPool pool(own.heap,
                                           {.name = "tensors", .segment_bytes = kSegmentBytes});
                        std::vector<SymmetricBuffer> all;
                        for (int i = 0; i < 3; ++i) all.push_back(pool.allocate(512));
                        (void)own.group.rendezvous(all[0], kTestTimeout);
                        // Rank 1 frees a different buffer, so its next buffer is at a different
                        // position.
                        all[own.group.rank() == 1 ? 2 : 1].reset();
                        const SymmetricBuffer next = pool.allocate(512);
                        const std::string message =
                            error_message([&] { (void)own.group.rendezvous(next, kTestTimeout); });
                        // Buffers allocated before the difference still work.
                        const Handle handle = own.group.rendezvous(all[0], kTestTimeout);
                        if (std::string wrong = check_exchange(handle, all[0], 3); !wrong.empty())
                          return wrong;
                        return message;
                      }));
  EXPECT_THAT(
      ranks.results(),
      Each(AllOf(HasSubstr("invalid argument"), HasSubstr("pool tensors, first in call 3: "),
                 HasSubstr("rank 0 freed buffer 1, rank 1 freed buffer 2, rank 2 freed"))));
}

// The final buffers have the same size and offset; only the hashes of the call histories differ.
TEST(SymmetricPoolTest, DetectsDifferentHistoryWithEqualLayout) {
  RankProcesses ranks(
      2, with_memory(8, [](SymmetricRank& own) -> std::string {
        SymmetricPool pool(own.heap, {.name = "pool", .segment_bytes = kSegmentBytes});
        { const SymmetricBuffer temporary = pool.allocate(own.group.rank() == 0 ? 640 : 512); }
        const SymmetricBuffer buffer = pool.allocate(512);
        return error_message([&] { (void)own.group.rendezvous(buffer, kTestTimeout); });
      }));
  EXPECT_THAT(ranks.results(),
              Each(HasSubstr("call 0: rank 0 allocated 640 bytes, rank 1 allocated 512 bytes")));
}

TEST(SymmetricPoolTest, DetectsDifferentBuffers) {
  RankProcesses ranks(
      2, with_memory(512, [](SymmetricRank& own) -> std::string {
        SymmetricPool pool(own.heap, {.name = "pool", .segment_bytes = kSegmentBytes});
        SymmetricPool other(own.heap, {.name = "other", .segment_bytes = kSegmentBytes});
        const SymmetricBuffer first = pool.allocate(512);
        const SymmetricBuffer second = pool.allocate(512);
        const SymmetricBuffer elsewhere = other.allocate(512);
        const bool is_first = own.group.rank() == 0;
        std::string message = error_message(
            [&] { (void)own.group.rendezvous(is_first ? first : second, kTestTimeout); });
        if (message.find("numbered in allocation order: rank 0: 0, rank 1: 1") ==
            std::string::npos) {
          return message;
        }
        message = error_message(
            [&] { (void)own.group.rendezvous(is_first ? first : elsewhere, kTestTimeout); });
        if (message.find("rank 0: pool pool, rank 1: pool other") == std::string::npos) {
          return message;
        }
        const Handle one = own.group.rendezvous(first, kTestTimeout);
        const Handle two = own.group.rendezvous(second, kTestTimeout);
        // Every collective compares the buffers again, including offsets.
        message = error_message([&] {
          (is_first ? one : two)
              .all_reduce(1, {}, {.offset_bytes = is_first ? 128 : 0, .timeout = kTestTimeout});
        });
        return message.find("made different calls") == std::string::npos ? message : "";
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricPoolTest, ChecksNamesAndSizes) {
  RankProcesses ranks(
      1, with_memory(8, [](SymmetricRank& own) -> std::string {
        std::optional<SymmetricPool> pool(std::in_place, own.heap, SymmetricPoolOptions{});
        const std::string again = error_message([&] { const SymmetricPool second(own.heap); });
        if (again.find("has a pool called pool") == std::string::npos) return again;
        const std::string empty =
            error_message([&] { const SymmetricPool bad(own.heap, {.name = ""}); });
        if (empty.find("expected 1 to 256") == std::string::npos) return empty;
        const std::string none = error_message(
            [&] { const SymmetricPool bad(own.heap, {.name = "bad", .segment_bytes = 0}); });
        if (none.find("segments of 0 bytes") == std::string::npos) return none;
        // A group name must not collide with the name of a pool's segments.
        const std::string name_error = error_message(
            [&] { (void)own.heap.allocate(8, {.group = "pool pool", .persistent_id = {}}); });
        if (name_error.find("group 'pool pool': expected 1 to 64") == std::string::npos)
          return name_error;
        SymmetricBuffer survivor = pool->allocate(16);
        pool.reset();
        survivor.as<int>()[0] = 1;
        (void)own.group.rendezvous(survivor, kTestTimeout);
        survivor.reset();
        const SymmetricPool successor(own.heap);
        return {};
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
