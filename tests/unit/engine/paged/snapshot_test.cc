// SPDX-License-Identifier: Apache-2.0
//
// Tests of the views and extents in a snapshot, which together account for all reserved memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "unit/engine/paged/paged_fixture.h"

namespace ashlar::paged {
namespace {

class PagedSnapshotTest : public PagedFixture {
 protected:
  void SetUp() override { start({}, 8 * kGiB); }

  size_t reserved_bytes() const { return static_cast<size_t>(stats().reserved_bytes.all.current); }

  // Checks the invariants of a full snapshot.
  void check(const EngineSnapshot& held) {
    size_t extent_bytes = 0;
    size_t attached_bytes = 0;
    std::map<uint64_t, size_t> mapped;  // keyed by address
    std::set<ExtentId> ids;
    for (const SnapshotExtent& extent : held.extents) {
      extent_bytes += extent.bytes;
      EXPECT_TRUE(ids.insert(extent.id).second) << "an extent is listed twice";
      bool is_attached_mapped = !extent.attached_address;
      for (const SnapshotMapping& mapping : extent.mappings) {
        is_attached_mapped |= extent.attached_address == mapping.address;
        EXPECT_TRUE(mapped.emplace(mapping.address.value(), extent.bytes).second);
        EXPECT_NE(view_with(held, {mapping.address, extent.bytes}), nullptr);
      }
      EXPECT_TRUE(is_attached_mapped) << "an extent is attached where it is not mapped";
      if (!extent.attached_address) continue;
      attached_bytes += extent.bytes;
      EXPECT_TRUE(is_in_a_segment(held, {*extent.attached_address, extent.bytes}));
    }
    uint64_t end = 0;
    for (const auto& [address, bytes] : mapped) {
      EXPECT_GE(address, end) << "two extents have the same address";
      end = address + bytes;
    }
    size_t plain_bytes = 0;
    size_t mapped_segment_bytes = 0;
    for (const SnapshotSegment& segment : held.segments) {
      if (segment.is_paused) continue;
      (segment.is_expandable ? mapped_segment_bytes : plain_bytes) += segment.total_bytes;
    }
    // Attached ranges do not overlap and lie in segments, so equal sums mean equal ranges.
    EXPECT_EQ(attached_bytes, mapped_segment_bytes);
    EXPECT_EQ(extent_bytes + plain_bytes, reserved_bytes());
  }

  static const SnapshotView* view_with(const EngineSnapshot& held, AddressRange range) {
    for (const SnapshotView& view : held.views) {
      EXPECT_LE(view.mapped_bytes, view.reserved_bytes);
      if (AddressRange{view.address, view.mapped_bytes}.contains(range)) return &view;
    }
    return nullptr;
  }
  static bool is_in_a_segment(const EngineSnapshot& held, AddressRange range) {
    return std::any_of(held.segments.begin(), held.segments.end(), [&](const auto& segment) {
      return segment.is_expandable &&
             AddressRange{segment.address, segment.total_bytes}.contains(range);
    });
  }
  static const SnapshotMapping& mapping_at(const SnapshotExtent& extent, DeviceAddress address) {
    return *std::find_if(extent.mappings.begin(), extent.mappings.end(),
                         [&](const auto& each) { return each.address == address; });
  }
  static size_t count_idle(const EngineSnapshot& held) {
    return static_cast<size_t>(
        std::count_if(held.extents.begin(), held.extents.end(),
                      [](const auto& each) { return !each.attached_address; }));
  }
};

TEST_F(PagedSnapshotTest, NewMemoryIsInOneView) {
  Block* block = allocate(40 * kMiB);
  const EngineSnapshot held = engine_->take_snapshot();
  check(held);
  ASSERT_EQ(held.views.size(), 1U);
  EXPECT_EQ(held.views[0].address, block->address);
  EXPECT_GE(held.views[0].mapped_bytes, 40 * kMiB);
  EXPECT_TRUE(held.views[0].is_large);
  EXPECT_GT(held.extents.size(), 1U);
  for (const SnapshotExtent& extent : held.extents) {
    EXPECT_EQ(extent.mappings.size(), 1U);
    EXPECT_TRUE(extent.is_large);
    EXPECT_TRUE(extent.attached_address);
  }
  free(block);
}

TEST_F(PagedSnapshotTest, StitchedExtentListsAllMappings) {
  const std::vector<Block*> left = leave_holes(20 * kMiB, 8);
  const EngineSnapshot before = engine_->take_snapshot();
  Block* whole = allocate(80 * kMiB);  // larger than any hole, so it is stitched
  const EngineSnapshot held = engine_->take_snapshot();
  check(held);
  EXPECT_EQ(held.extents.size(), before.extents.size()) << "memory was created";
  const AddressRange range{whole->address, whole->bytes};
  size_t whole_bytes = 0;
  size_t moved_bytes = 0;
  for (const SnapshotExtent& extent : held.extents) {
    if (!range.contains(*extent.attached_address)) continue;
    whole_bytes += extent.bytes;
    if (extent.mappings.size() == 1) continue;
    moved_bytes += extent.bytes;
    const SnapshotMapping& here = mapping_at(extent, *extent.attached_address);
    for (const SnapshotMapping& each : extent.mappings)
      EXPECT_LE(each.mapped_at_us, here.mapped_at_us);
  }
  EXPECT_EQ(whole_bytes, 80 * kMiB);
  EXPECT_GE(moved_bytes, 60 * kMiB) << "one of the holes may not have moved";
  free(whole);
  for (Block* block : left) free(block);
}

TEST_F(PagedSnapshotTest, ExtentNamesItsLastStream) {
  const StreamId other = *device().create_stream();
  free(allocate(32 * kMiB));
  Block* borrowed = allocate(32 * kMiB, other);
  const EngineSnapshot held = engine_->take_snapshot();
  check(held);
  for (const SnapshotExtent& extent : held.extents) EXPECT_EQ(extent.stream, other);
  free(borrowed);
}

// The trace determines the address of each extent, except for idle extents.
TEST_F(PagedSnapshotTest, ExtentHasItsTracedAddress) {
  std::map<uint64_t, size_t> traced_ranges;  // keyed by address
  engine_->add_tracker([&](const TraceEntry& entry) {
    if (entry.action == TraceAction::kSegmentUnmap) traced_ranges.erase(entry.address.value());
    if (entry.action == TraceAction::kSegmentMap)
      traced_ranges[entry.address.value()] = entry.bytes;
  });
  const std::vector<Block*> left = leave_holes(20 * kMiB, 8);
  Block* whole = allocate(80 * kMiB);
  for (Block* block : left) free(block);
  const auto traced = [&] {
    std::map<uint64_t, size_t> ranges;
    for (const SnapshotExtent& extent : engine_->take_snapshot().extents) {
      if (extent.traced_address) ranges[extent.traced_address->value()] = extent.bytes;
    }
    return ranges;
  };
  EXPECT_EQ(traced(), traced_ranges);
  free(whole);
  free(allocate(100 * kMiB));
  EXPECT_EQ(traced(), traced_ranges);
}

TEST_F(PagedSnapshotTest, MemorySetAsideByTrimIsIdle) {
  const StreamId busy = busy_stream();
  free(allocate(64 * kMiB, busy));
  ASSERT_TRUE(engine_->trim_to({0, TrimWait::kNever, {}}).ok());
  const EngineSnapshot held = engine_->take_snapshot();
  check(held);
  EXPECT_EQ(reserved_bytes(), 64 * kMiB);
  EXPECT_GT(held.extents.size(), 0U);
  EXPECT_EQ(count_idle(held), held.extents.size());
  for (const SnapshotExtent& extent : held.extents) {
    EXPECT_EQ(extent.mappings.size(), 1U) << "it keeps its mapping";
    EXPECT_EQ(extent.stream, busy);
  }
  finish(busy);
}

TEST_F(PagedSnapshotTest, PausedPoolHasNoExtents) {
  must(engine_->create_pool(kPool, {.tag = "weights"}));
  must(engine_->begin_routing(kPool, [](StreamId) { return true; }));
  Block* inside = allocate(32 * kMiB);
  must(engine_->end_routing(kPool));
  Block* outside = allocate(32 * kMiB);
  EXPECT_GT(engine_->take_snapshot(kPool).extents.size(), 0U);
  must(engine_->pause("weights", false));
  EXPECT_EQ(engine_->take_snapshot(kPool).extents.size(), 0U);
  EXPECT_EQ(engine_->take_snapshot(kPool).views.size(), 1U);
  check(engine_->take_snapshot());
  must(engine_->resume("weights"));
  check(engine_->take_snapshot());
  for (const SnapshotExtent& extent : engine_->take_snapshot(kPool).extents) {
    EXPECT_EQ(extent.pool, kPool);
  }
  free(inside);
  free(outside);
}

TEST_F(PagedSnapshotTest, ViewsAndExtentsMatchReservedBytes) {
  constexpr uint64_t kSeed = 20261116;
  Random random(kSeed);
  const StreamId other = *device().create_stream();
  std::vector<Block*> live;
  bool has_stitched = false;
  for (int step = 0; step < 1500; ++step) {
    if (!live.empty() && random.below(100) < 48) {
      const size_t at = random.below(live.size());
      free(live[at]);
      live[at] = live.back();
      live.pop_back();
    } else {
      const size_t bytes =
          random.below(4) == 0 ? 1 + random.below(kMiB) : (1 + random.below(48)) * kMiB;
      live.push_back(allocate(bytes, random.below(3) == 0 ? other : kDefaultStream));
    }
    if (step % 400 == 399) must(engine_->trim());
    if (step % 25 != 0) continue;
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", step " << step);
    const EngineSnapshot held = engine_->take_snapshot();
    check(held);
    for (const SnapshotExtent& extent : held.extents) has_stitched |= extent.mappings.size() > 1;
    if (HasFailure()) break;
  }
  EXPECT_TRUE(has_stitched) << "no request was stitched";
  for (Block* block : live) free(block);
}

}  // namespace
}  // namespace ashlar::paged
