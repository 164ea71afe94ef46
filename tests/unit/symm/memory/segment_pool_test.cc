// SPDX-License-Identifier: Apache-2.0
//
// Tests pools of symmetric memory: placement of buffers, the call log, and segments.
#include "symm/memory/segment_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/wire.h"
#include "symm/rendezvous/rendezvous_record.h"

namespace ashlar::symm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SegmentFreeList, AllocatesBestFitInTheOldestSegment) {
  SegmentFreeList free_list;
  free_list.add_segment(0, 1000);
  free_list.add_segment(1, 300);
  EXPECT_EQ(*free_list.allocate(200), (SegmentFreeList::Position{1, 0}));
  EXPECT_EQ(*free_list.allocate(200), (SegmentFreeList::Position{0, 0}));
  EXPECT_EQ(*free_list.allocate(100), (SegmentFreeList::Position{1, 200}));
  EXPECT_EQ(*free_list.allocate(700), (SegmentFreeList::Position{0, 200}));
  EXPECT_EQ(free_list.free_bytes(), 100U);
  EXPECT_FALSE(free_list.allocate(101));
  free_list.release({1, 200}, 100);  // the same size as the range in segment 0
  EXPECT_EQ(*free_list.allocate(100), (SegmentFreeList::Position{0, 900}));
}

TEST(SegmentFreeList, CoalescesNeighboursWithinASegment) {
  SegmentFreeList free_list;
  free_list.add_segment(0, 300);
  free_list.add_segment(1, 300);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(free_list.allocate(100));
  free_list.release({0, 200}, 100);
  free_list.release({1, 0}, 100);
  EXPECT_FALSE(free_list.allocate(101));
  free_list.release({0, 0}, 100);
  EXPECT_FALSE(free_list.allocate(101));
  EXPECT_THAT(free_list.remove_empty_segments(), IsEmpty());
  free_list.release({0, 100}, 100);
  EXPECT_EQ(*free_list.allocate(300), (SegmentFreeList::Position{0, 0}));
  free_list.release({0, 0}, 300);
  EXPECT_THAT(free_list.remove_empty_segments(), ElementsAre(0U));
  EXPECT_EQ(free_list.free_bytes(), 100U);
}

TEST(PoolCallLog, FindsTheFirstDifference) {
  PoolCallLog one;
  PoolCallLog other;
  for (PoolCallLog* log : {&one, &other}) {
    log->append({PoolCall::Kind::kAllocate, 512});
    log->append({PoolCall::Kind::kAllocate, 64});
  }
  EXPECT_EQ(one.state().hash, other.state().hash);
  one.append({PoolCall::Kind::kFree, 0});
  other.append({PoolCall::Kind::kFree, 1});
  one.append({PoolCall::Kind::kAllocate, 7});
  other.append({PoolCall::Kind::kAllocate, 7});
  EXPECT_NE(one.state().hash, other.state().hash);
  const std::vector<std::string> tails = {one.tail_up_to(3), other.tail_up_to(3)};
  EXPECT_EQ(*first_difference(tails), "in call 2: rank 0 freed buffer 0, rank 1 freed buffer 1");
  const std::vector<std::string> before = {one.tail_up_to(1), other.tail_up_to(3)};
  EXPECT_EQ(*first_difference(before), "");
}

TEST(PoolCallLog, ReportsADifferenceBeforeTheRecordedCalls) {
  PoolCallLog one;
  PoolCallLog other;
  one.append({PoolCall::Kind::kAllocate, 1});
  other.append({PoolCall::Kind::kAllocateFailed, 1});
  for (size_t i = 0; i < PoolCallLog::kKeptCalls; ++i) {
    one.append({PoolCall::Kind::kTrim, 0});
    other.append({PoolCall::Kind::kTrim, 0});
  }
  const uint64_t last = one.state().number - 1;
  const std::vector<std::string> tails = {one.tail_up_to(last), other.tail_up_to(last)};
  RendezvousRecord record;
  record.scope = "pool x";
  EXPECT_THAT(
      describe_pool_divergence("world", {record, record}, tails).message(),
      HasSubstr("made different calls to pool x, first before call 1: only the last 512 calls"));
}

TEST(PoolCallLog, RejectsMalformedLogs) {
  const std::string good = PoolCallLog().tail_up_to(0);
  EXPECT_EQ(*first_difference(std::vector{good, good}), "");
  WireWriter many;
  many.append_number(uint64_t{0}).append_number(uint64_t{0}).append_number(uint32_t{1} << 30);
  WireWriter unknown;
  unknown.append_number(uint64_t{0}).append_number(uint64_t{0}).append_number(uint32_t{1});
  unknown.append_number(uint8_t{9}).append_number(uint64_t{0});
  WireWriter last;
  last.append_number(UINT64_MAX).append_number(uint64_t{0}).append_number(uint32_t{1});
  last.append_number(uint8_t{0}).append_number(uint64_t{0});
  for (const std::string& bad :
       {std::string(), good + "x", many.take(), unknown.take(), last.take()}) {
    const auto compared = first_difference(std::vector{good, bad});
    EXPECT_TRUE(compared.status().is(StatusKind::kFormat)) << bad.size();
    EXPECT_THAT(compared.status().message(), HasSubstr("rank 1"));
  }
}

class SegmentPoolTest : public ::testing::Test {
 protected:
  static constexpr size_t kSegmentBytes = 4096;

  std::unique_ptr<Process> process_ = *Process::start({});
  RankHeap heap_{*process_, process_->backends().activate(), {}};
};

// Two pools with the same calls return the same offsets, although their addresses differ.
TEST_F(SegmentPoolTest, SameCallsGiveSameOffsets) {
  SegmentPool one(heap_, {"one", kSegmentBytes});
  SegmentPool other(heap_, {"other", kSegmentBytes});
  std::mt19937 random(20260101);
  std::vector<std::pair<std::byte*, std::byte*>> live;
  const auto buffer_at = [&](const std::byte* at) { return *heap_.find(at)->pool_buffer; };
  for (int call = 0; call < 2000; ++call) {
    if (live.size() > 20 || (!live.empty() && random() % 3 == 0)) {
      const size_t which = random() % live.size();
      ASSERT_TRUE(one.free(live[which].first).ok());
      ASSERT_TRUE(other.free(live[which].second).ok());
      live.erase(live.begin() + static_cast<long>(which));
    } else {
      const size_t bytes = random() % (kSegmentBytes + 1000);
      live.emplace_back(*one.allocate(bytes), *other.allocate(bytes));
      const PoolBuffer a = buffer_at(live.back().first);
      const PoolBuffer b = buffer_at(live.back().second);
      ASSERT_EQ(a.segment, b.segment);
      ASSERT_EQ(a.offset, b.offset);
      ASSERT_EQ(a.sequence_hash, b.sequence_hash);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(live.back().first) % 128, 0U);
    }
    if (call % 100 == 0) {
      one.trim();
      other.trim();
    }
  }
  EXPECT_EQ(one.stats().calls.hash, other.stats().calls.hash);
  EXPECT_EQ(one.stats().segment_bytes, other.stats().segment_bytes);
  EXPECT_EQ(one.stats().buffer_count, live.size());
}

TEST_F(SegmentPoolTest, FindsBuffersByInteriorAddress) {
  SegmentPool pool(heap_, {"pool", kSegmentBytes});
  std::byte* first = *pool.allocate(100);
  std::byte* second = *pool.allocate(1000);
  EXPECT_EQ(second, first + 128);
  const std::optional<RankHeap::BufferLocation> inside = heap_.find(second + 999);
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->offset, 128U + 999);
  EXPECT_EQ(inside->pool_buffer->ordinal, 1U);
  EXPECT_EQ(inside->block, heap_.find(first)->block);
  EXPECT_FALSE(heap_.find(first + 100));  // an address in the padding to 128 bytes
  EXPECT_FALSE(heap_.find(second + 1024));
  EXPECT_TRUE(pool.free(second + 1).is(StatusKind::kInvalidArgument));
  ASSERT_TRUE(pool.free(second).ok());
  EXPECT_FALSE(heap_.find(second));
  EXPECT_TRUE(pool.free(second).is(StatusKind::kInvalidArgument));
  EXPECT_THAT(pool.free(this).message(), HasSubstr("pool pool"));
}

TEST_F(SegmentPoolTest, SegmentsAreNumberedSeparatelyAndHidden) {
  SegmentPool pool(heap_, {"pool", kSegmentBytes});
  SegmentPool other(heap_, {"other", kSegmentBytes});
  std::byte* buffer = *pool.allocate(100);
  std::byte* own = *heap_.allocate(100, {});
  std::byte* others = *other.allocate(100);
  const std::byte* begin = heap_.find(buffer)->block->buffer();
  for (const std::byte* each : {own, others}) {
    EXPECT_TRUE(each < begin || each >= begin + kSegmentBytes);
  }
  EXPECT_EQ(heap_.live_count(), 1U);
  EXPECT_EQ(heap_.find(own)->block->ordinal, 0U);  // not affected by the pool
  EXPECT_EQ(heap_.find(others)->block->ordinal, 0U);
  EXPECT_TRUE(other.free(buffer).is(StatusKind::kInvalidArgument));
  EXPECT_TRUE(pool.free(own).is(StatusKind::kInvalidArgument));
}

TEST_F(SegmentPoolTest, GrowsOnDemandAndTrimsEmptySegments) {
  SegmentPool pool(heap_, {"pool", kSegmentBytes});
  std::byte* small = *pool.allocate(1);
  std::byte* large = *pool.allocate(3 * kSegmentBytes);
  EXPECT_EQ(pool.stats().segment_count, 2U);
  EXPECT_EQ(pool.stats().segment_bytes, 4 * kSegmentBytes);
  EXPECT_EQ(pool.stats().used_bytes, 128 + 3 * kSegmentBytes);
  ASSERT_TRUE(pool.free(large).ok());
  EXPECT_EQ(*pool.allocate(2 * kSegmentBytes), large);
  ASSERT_TRUE(pool.free(large).ok());
  pool.trim();
  EXPECT_EQ(pool.stats().segment_count, 1U);
  EXPECT_EQ(pool.stats().buffer_count, 1U);
  ASSERT_TRUE(pool.free(small).ok());
}

// A back end that is out of memory.
class FullBackend final : public Backend {
 public:
  std::string_view name() const override { return "full"; }
  DeviceUuid device() const override { return {}; }
  Result<std::shared_ptr<MappedMemory>> allocate(size_t /*bytes*/, size_t /*zero_bytes*/) override {
    return Status::out_of_memory("full");
  }
  Result<UniqueFd> export_fd(const MappedMemory& /*memory*/) override {
    return Status::invalid_argument("none");
  }
  Result<std::shared_ptr<MappedMemory>> import_fd(UniqueFd /*fd*/, size_t /*bytes*/) override {
    return Status::invalid_argument("none");
  }
};

TEST_F(SegmentPoolTest, LogsOutOfMemory) {
  FullBackend full;
  RankHeap heap(*process_, full, {});
  SegmentPool pool(heap, {"pool", kSegmentBytes});
  const uint64_t before = pool.stats().calls.number;
  EXPECT_TRUE(pool.allocate(SIZE_MAX).status().is_out_of_memory());
  EXPECT_EQ(pool.stats().calls.number, before);  // not attempted, as it fails on every rank
  EXPECT_TRUE(pool.allocate(100).status().is_out_of_memory());
  EXPECT_EQ(pool.stats().calls.number, before + 1);
  EXPECT_EQ(pool.stats().segment_count, 0U);
}

}  // namespace
}  // namespace ashlar::symm
