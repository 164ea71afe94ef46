// SPDX-License-Identifier: Apache-2.0
//
// Tests extent maps of hand-written traces, and checks invariants on a real run of the paged
// engine.
#include "view/extent_map.h"

#include <gtest/gtest.h>

#include <set>

#include "ashlar/allocator.h"
#include "ashlar/sim.h"
#include "base/random.h"
#include "base/units.h"
#include "unit/analysis/trace_builder.h"
#include "unit/view/columns_reader.h"
#include "unit/view/random_run.h"

namespace ashlar::view {
namespace {

constexpr uint64_t kExtentAddress = uint64_t{64} << 20;

SnapshotExtent extent_of(uint64_t id, std::vector<SnapshotMapping> mappings) {
  SnapshotExtent extent;
  extent.id = ExtentId(id);
  extent.bytes = 2 * kMiB;
  extent.mappings = std::move(mappings);
  return extent;
}

// Returns a snapshot with two views. Extent 1 stays in the first view. Extent 2 is mapped behind
// extent 1 and moves to the second view. Extent 3 is idle at the end. The last entry records the
// snapshot.
Snapshot moving_snapshot() {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentMap, kExtentAddress, 2 * kMiB)
      .add(TraceAction::kSegmentMap, kExtentAddress + 2 * kMiB, 2 * kMiB)
      .add(TraceAction::kSegmentMap, kExtentAddress + 4 * kMiB, 2 * kMiB)
      .alloc(kExtentAddress, 2 * kMiB)
      .add(TraceAction::kSegmentUnmap, kExtentAddress + 2 * kMiB, 2 * kMiB)
      .add(TraceAction::kSegmentMap, 2 * kExtentAddress, 2 * kMiB)
      .alloc(2 * kExtentAddress, kMiB)
      .add(TraceAction::kSnapshot, 0, 0);
  Snapshot& snapshot = trace.snapshot();
  int64_t time_us = 100;
  for (TraceEntry& entry : snapshot.device_traces[0]) {
    entry.has_time = true;
    entry.time_us = time_us += 10;
  }
  for (const uint64_t address : {kExtentAddress, 2 * kExtentAddress}) {
    SnapshotView view;
    view.address = DeviceAddress(address);
    view.reserved_bytes = 32 * kMiB;
    view.mapped_bytes = 6 * kMiB;
    snapshot.views.push_back(view);
    SnapshotSegment segment;
    segment.address = view.address;
    segment.total_bytes = 2 * kMiB;
    segment.is_expandable = true;
    segment.blocks = {{view.address, 2 * kMiB, kMiB, SnapshotBlockState::kAllocated, {}}};
    snapshot.segments.push_back(segment);
  }
  snapshot.extents = {extent_of(1, {{DeviceAddress(kExtentAddress), 105}}),
                      extent_of(2, {{DeviceAddress(kExtentAddress + 2 * kMiB), 115},
                                    {DeviceAddress(2 * kExtentAddress), 155}}),
                      extent_of(3, {{DeviceAddress(kExtentAddress + 4 * kMiB), 125}})};
  snapshot.extents[0].attached_address = snapshot.extents[0].traced_address =
      DeviceAddress(kExtentAddress);
  snapshot.extents[1].attached_address = snapshot.extents[1].traced_address =
      DeviceAddress(2 * kExtentAddress);
  snapshot.extents[2].traced_address = DeviceAddress(kExtentAddress + 4 * kMiB);
  return snapshot;
}

ExtentMap extents_at(const Document& document, uint32_t moment) {
  return find_extents(document, moment, build_map(document, moment));
}

std::vector<uint64_t> ids_of(const ExtentMap& map) {
  std::vector<uint64_t> ids;
  for (const MapExtent& extent : map.extents) ids.push_back(extent.recorded->id.value());
  return ids;
}

TEST(ExtentMapTest, ShowsAnExtentFromItsFirstMappingOn) {
  const Document document = document_of(moving_snapshot());
  EXPECT_EQ(ids_of(extents_at(document, 0)), (std::vector<uint64_t>{1}));
  EXPECT_EQ(ids_of(extents_at(document, 1)), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(ids_of(extents_at(document, 7)), (std::vector<uint64_t>{1, 2, 3}));
}

TEST(ExtentMapTest, KeepsOldMappingsOfAMovedExtent) {
  const Document document = document_of(moving_snapshot());
  const ExtentMap before = extents_at(document, 3);
  EXPECT_EQ(before.extents[1].home, DeviceAddress(kExtentAddress + 2 * kMiB));
  EXPECT_EQ(before.extents[1].addresses.size(), 1U);
  const ExtentMap after = extents_at(document, 5);
  EXPECT_EQ(after.extents[1].home, DeviceAddress(2 * kExtentAddress));
  EXPECT_EQ(after.extents[1].addresses.size(), 2U);
  ASSERT_EQ(after.mapped_ranges.size(), 2U);
  ASSERT_EQ(after.mapped_ranges[0].size(), 3U);
  EXPECT_TRUE(after.mapped_ranges[0][0].is_home);
  EXPECT_FALSE(after.mapped_ranges[0][1].is_home) << "its memory is used by another view";
  EXPECT_EQ(after.mapped_ranges[0][1].extent, 1U);
  EXPECT_TRUE(after.mapped_ranges[0][2].is_home) << "free, where it was used last";
  ASSERT_EQ(after.mapped_ranges[1].size(), 1U);
  EXPECT_TRUE(after.mapped_ranges[1][0].is_home);
}

TEST(ExtentMapTest, MatchesTheSnapshotAtTheLastMoment) {
  const Document document = document_of(moving_snapshot());
  const ExtentMap map = extents_at(document, 7);
  EXPECT_EQ(map.extents[2].home, std::nullopt);
  ASSERT_EQ(build_map(document, 7).size(), 2U);
  EXPECT_EQ(build_map(document, 7)[0].range.bytes, 2 * kMiB) << "idle memory is in no segment";
  EXPECT_EQ(map.mapped_ranges[0].size(), 1U);
}

TEST(ExtentMapTest, HasOnlyTheLastMomentWithoutTimes) {
  Snapshot snapshot = moving_snapshot();
  for (TraceEntry& entry : snapshot.device_traces[0]) entry.has_time = false;
  const Document document = document_of(std::move(snapshot));
  EXPECT_TRUE(extents_at(document, 6).extents.empty());
  EXPECT_EQ(extents_at(document, 7).extents.size(), 3U);
}

TEST(ExtentMapTest, WritesHomesAndMappingsAsColumns) {
  const Document document = document_of(moving_snapshot());
  const ColumnsReader map(map_columns(document, 6));
  EXPECT_EQ(map.column<uint64_t>("extent_id"), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(map.column<double>("extent_bytes"), std::vector<double>(3, 2.0 * kMiB));
  EXPECT_EQ(map.column<uint8_t>("extent_has_home"), (std::vector<uint8_t>{1, 1, 1}));
  EXPECT_EQ(map.column<uint64_t>("extent_home"),
            (std::vector<uint64_t>{kExtentAddress, 2 * kExtentAddress, kExtentAddress + 4 * kMiB}));
  EXPECT_EQ(map.column<uint32_t>("mapping_first"), (std::vector<uint32_t>{0, 1, 3, 4}));
  EXPECT_EQ(map.column<uint64_t>("mapping_address"),
            (std::vector<uint64_t>{kExtentAddress, kExtentAddress + 2 * kMiB, 2 * kExtentAddress,
                                   kExtentAddress + 4 * kMiB}));
  EXPECT_EQ(map.column<uint32_t>("range_first"), (std::vector<uint32_t>{0, 3, 4}));
  EXPECT_EQ(map.column<uint32_t>("range_extent"), (std::vector<uint32_t>{0, 1, 2, 1}));
  EXPECT_EQ(map.column<uint8_t>("range_is_home"), (std::vector<uint8_t>{1, 0, 1, 1}));
}

TEST(ExtentMapTest, MergesSmallMappedRanges) {
  ExtentMap map;
  map.mapped_ranges.resize(2);
  for (uint64_t i = 0; i < 1000; ++i) {
    map.mapped_ranges[0].push_back({.offset = i, .bytes = 1, .extent = 1, .is_home = i < 500});
  }
  map.mapped_ranges[1].push_back({.offset = 0, .bytes = kMiB, .extent = 2, .is_home = true});
  merge_small_mapped_ranges(map, 10);
  EXPECT_LE(map.mapped_ranges[0].size(), 9U);
  uint64_t bytes = 0;
  uint64_t home_bytes = 0;
  for (const MappedRange& each : map.mapped_ranges[0]) {
    EXPECT_EQ(each.offset, bytes);
    bytes += each.bytes;
    home_bytes += each.is_home ? each.bytes : 0;
  }
  EXPECT_EQ(bytes, 1000U);
  EXPECT_EQ(home_bytes, 500U);
  EXPECT_EQ(map.mapped_ranges[1][0].extent, 2U) << "large enough to be shown";
}

Snapshot run_of_the_engine(uint64_t seed) {
  sim::Options options;
  options.capacity_bytes = 8 * kGiB;
  options.backing = sim::Backing::kBookkeeping;
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create(options);
  Allocator allocator(machine->device(DeviceIndex(0)), parse_options("engine:paged"));
  HistoryOptions history;
  history.context = RecordContext::kNever;
  allocator.history().start(history);
  Random random(seed);
  std::vector<Buffer> live;
  for (int step = 0; step < 800; ++step) {
    if (!live.empty() && random.below(100) < 48) {
      std::swap(live[random.below(live.size())], live.back());
      live.pop_back();
    } else {
      live.push_back(allocator.allocate((1 + random.below(48)) * kMiB));
    }
  }
  return allocator.snapshot();
}

uint64_t covered_bytes(const std::vector<MappedRange>& mapped_ranges, const MapBlock& block) {
  uint64_t bytes = 0;
  for (const MappedRange& each : mapped_ranges) {
    const uint64_t begin = std::max(each.offset, block.offset);
    const uint64_t end = std::min(each.offset + each.bytes, block.offset + block.bytes);
    if (each.is_home && begin < end) bytes += end - begin;
  }
  return bytes;
}

// This run returns nothing to the device, so the state is known at every moment.
TEST(ExtentMapTest, CoversEveryBlockOfARealRunWithMemory) {
  for (const uint64_t seed : {1, 2, 3}) {
    const Document document = document_of(run_of_the_engine(seed));
    bool has_aliased = false;
    for (uint32_t moment = 0; moment < document.entry_count(); ++moment) {
      const bool is_sampled = moment % 17 == 0 || moment + 2 >= document.entry_count();
      if (!is_sampled) continue;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", moment " << moment);
      const std::vector<MapSegment> segments = build_map(document, moment);
      const ExtentMap map = find_extents(document, moment, segments);
      // Before the last moment, mapped memory that is not traced yet has no home.
      const bool is_last = moment + 1 == document.entry_count();
      uint64_t listed_bytes = 0;
      for (const MapExtent& extent : map.extents) {
        if (extent.home || is_last) listed_bytes += extent.recorded->bytes;
      }
      std::set<uint32_t> at_home;
      for (size_t i = 0; i < segments.size(); ++i) {
        uint64_t end = 0;
        for (const MappedRange& each : map.mapped_ranges[i]) {
          ASSERT_GE(each.offset, end) << "two extents are at one address";
          end = each.offset + each.bytes;
          has_aliased |= !each.is_home;
          const bool is_at_home_twice = each.is_home && !at_home.insert(each.extent).second;
          ASSERT_FALSE(is_at_home_twice);
        }
        ASSERT_LE(end, segments[i].range.bytes);
        for (const MapBlock& block : segments[i].blocks) {
          const bool has_memory = block.state != BlockState::kNotMapped;
          ASSERT_EQ(covered_bytes(map.mapped_ranges[i], block), has_memory ? block.bytes : 0);
        }
      }
      ASSERT_EQ(listed_bytes, document.reserved_at(moment));
    }
    EXPECT_TRUE(has_aliased) << "no request was ever stitched";
  }
}

}  // namespace
}  // namespace ashlar::view
