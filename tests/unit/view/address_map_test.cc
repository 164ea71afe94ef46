// SPDX-License-Identifier: Apache-2.0
//
// Tests address maps of hand-written traces, and checks invariants on random runs.
#include "view/address_map.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "analysis/timeline.h"
#include "base/units.h"
#include "config/snapshot_settings.h"
#include "unit/analysis/trace_builder.h"
#include "unit/view/columns_reader.h"
#include "unit/view/random_run.h"

namespace ashlar::view {
namespace {

constexpr uint64_t kAt = uint64_t{64} << 20;

std::vector<BlockState> states_of(const MapSegment& segment) {
  std::vector<BlockState> states;
  for (const MapBlock& block : segment.blocks) states.push_back(block.state);
  return states;
}
std::vector<uint64_t> sizes_of(const MapSegment& segment) {
  std::vector<uint64_t> sizes;
  for (const MapBlock& block : segment.blocks) sizes.push_back(block.bytes);
  return sizes;
}

TEST(AddressMapTest, ShowsLivePendingAndFreeBlocks) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, kAt, 20 * kMiB)
      .alloc(kAt, 4 * kMiB)
      .alloc(kAt + 8 * kMiB, 4 * kMiB)
      .add(TraceAction::kFreeRequested, kAt, 4 * kMiB)
      .add(TraceAction::kFreeCompleted, kAt, 4 * kMiB);
  const Document document = document_of(trace.snapshot());
  using enum BlockState;
  const auto states_at = [&](uint32_t moment) { return states_of(build_map(document, moment)[0]); };
  EXPECT_EQ(states_at(0), (std::vector{kFree}));
  EXPECT_EQ(states_at(1), (std::vector{kLive, kFree}));
  EXPECT_EQ(states_at(2), (std::vector{kLive, kFree, kLive, kFree}));
  EXPECT_EQ(states_at(3), (std::vector{kPending, kFree, kLive, kFree}));
  EXPECT_EQ(states_at(4), (std::vector{kFree, kLive, kFree}));
  EXPECT_EQ(sizes_of(build_map(document, 3)[0]),
            (std::vector{4 * kMiB, 4 * kMiB, 4 * kMiB, 8 * kMiB}));
}

TEST(AddressMapTest, KeepsRemaindersTooSmallToSplit) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, kAt, 20 * kMiB).alloc(kAt, 19 * kMiB + 1);
  const Document document = document_of(trace.snapshot());
  const MapSegment segment = build_map(document, 1)[0];
  ASSERT_EQ(sizes_of(segment), (std::vector{20 * kMiB}));
  EXPECT_EQ(segment.blocks[0].requested_bytes, 19 * kMiB + 1);
}

TEST(AddressMapTest, ShowsUnmappedParts) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentMap, kAt, 4 * kMiB)
      .add(TraceAction::kSegmentMap, kAt + 4 * kMiB, 4 * kMiB)
      .add(TraceAction::kSegmentMap, kAt + 8 * kMiB, 4 * kMiB)
      .add(TraceAction::kSegmentUnmap, kAt + 2 * kMiB, 4 * kMiB);
  const Document document = document_of(trace.snapshot());
  ASSERT_EQ(build_map(document, 2).size(), 1U);
  EXPECT_EQ(sizes_of(build_map(document, 2)[0]), (std::vector{12 * kMiB}));
  const std::vector<MapSegment> segments = build_map(document, 3);
  ASSERT_EQ(segments.size(), 1U) << "parts of one segment";
  EXPECT_TRUE(segments[0].is_expandable);
  using enum BlockState;
  EXPECT_EQ(states_of(segments[0]), (std::vector{kFree, kNotMapped, kFree}));
  EXPECT_EQ(sizes_of(segments[0]), (std::vector{2 * kMiB, 4 * kMiB, 6 * kMiB}));
}

TEST(AddressMapTest, ShowsViewsOfThePagedEngine) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentMap, kAt, 4 * kMiB)
      .add(TraceAction::kSegmentAlloc, 2 * kAt, 4 * kMiB);
  const auto kinds = [&] {
    const ColumnsReader map(map_columns(document_of(trace.snapshot()), 1));
    return map.column<uint8_t>("segment_kind");
  };
  EXPECT_EQ(kinds(), (std::vector<uint8_t>{1, 0}));
  AllocatorOptions options;
  options.engine = EngineKind::kPaged;
  trace.snapshot().settings = settings_of(options);
  EXPECT_EQ(kinds(), (std::vector<uint8_t>{2, 0}));
}

TEST(AddressMapTest, MakesSegmentsForUnownedAllocations) {
  TraceBuilder trace;
  trace.alloc(kAt, kMiB).alloc(kAt + kMiB, kMiB).alloc(kAt + 100 * kMiB, kMiB);
  const Document document = document_of(trace.snapshot());
  const std::vector<MapSegment> segments = build_map(document, 2);
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(sizes_of(segments[0]), (std::vector{kMiB, kMiB}));
  EXPECT_EQ(segments[1].range.begin.value(), kAt + 100 * kMiB);
}

TEST(AddressMapTest, ShowsTheSegmentsAtTheMoment) {
  TraceBuilder trace;
  trace
      .add(TraceAction::kSegmentFree, kAt, 20 * kMiB)  // predates the trace
      .add(TraceAction::kSegmentAlloc, kAt + 64 * kMiB, 2 * kMiB)
      .ends_with(kAt + 64 * kMiB, 2 * kMiB, SnapshotBlockState::kInactive);
  trace.snapshot().device_traces[0].insert(trace.snapshot().device_traces[0].begin(), TraceEntry{});
  trace.snapshot().device_traces[0][0].action = TraceAction::kSnapshot;
  const Document document = document_of(trace.snapshot());
  const auto bytes_at = [&](uint32_t moment) {
    std::vector<uint64_t> bytes;
    for (const MapSegment& segment : build_map(document, moment)) {
      bytes.push_back(segment.range.bytes);
    }
    return bytes;
  };
  EXPECT_EQ(bytes_at(0), (std::vector{20 * kMiB}));
  EXPECT_EQ(bytes_at(1), (std::vector<uint64_t>{}));
  EXPECT_EQ(bytes_at(2), (std::vector{2 * kMiB}));
}

TEST(AddressMapTest, ReportsTheAllocEntryOfLiveBlocks) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, kAt, 20 * kMiB).alloc(kAt, 4 * kMiB);
  const Document document = document_of(trace.snapshot());
  const ColumnsReader map(map_columns(document, 1));
  const Allocation& one = document.allocations().all[0];
  EXPECT_EQ(map.column<uint32_t>("block_allocation"), (std::vector<uint32_t>{0, kNoIndex}));
  EXPECT_EQ(map.column<uint32_t>("block_made"), (std::vector<uint32_t>{1, Allocation::kNoEntry}));
  EXPECT_EQ(map.column<uint32_t>("block_stack"),
            (std::vector<uint32_t>{document.stack_of(one), kNoIndex}));
}

TEST(AddressMapTest, TilesSegmentsOnRandomRuns) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Document document = document_of(random_snapshot({.seed = seed, .entry_count = 2000}));
    for (uint32_t moment = 0; moment < document.entry_count(); moment += 13) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", moment " << moment);
      std::map<uint64_t, uint32_t> found;  // allocations, keyed by address
      uint64_t last_end = 0;
      for (const MapSegment& segment : build_map(document, moment)) {
        ASSERT_GE(segment.range.begin.value(), last_end);
        last_end = segment.range.end().value();
        uint64_t offset = 0;
        for (const MapBlock& block : segment.blocks) {
          ASSERT_EQ(block.offset, offset);
          ASSERT_GT(block.bytes, 0U);
          offset += block.bytes;
          if (block.allocation != kNoIndex) {
            found[segment.range.begin.value() + block.offset] = block.allocation;
          }
        }
        ASSERT_EQ(offset, segment.range.bytes);
      }
      // If several allocations have the same address, the map shows the first allocation with an
      // alloc entry or, if none has an alloc entry, the first allocation.
      std::map<uint64_t, uint32_t> wanted;
      for (const bool from_before : {false, true}) {
        for (const uint32_t id : present_at(document.allocations(), moment)) {
          const Allocation& each = document.allocations().all[id];
          if (each.bytes == 0 || each.predates_trace() != from_before) continue;
          wanted.try_emplace(each.address.value(), id);
        }
      }
      ASSERT_EQ(found, wanted);
      uint64_t mapped = 0;
      for (const SegmentPiece& piece : document.segments().at(moment)) mapped += piece.range.bytes;
      ASSERT_EQ(mapped, document.reserved_at(moment));
    }
  }
}

TEST(AddressMapTest, MergesSmallBlocks) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, kAt, 1024 * kMiB);
  for (uint64_t i = 0; i < 30'000; ++i) trace.alloc(kAt + i * 4096, 2048);
  const Document document = document_of(trace.snapshot());
  const ColumnsReader map(map_columns(document, document.entry_count() - 1));
  const auto bytes = map.column<double>("block_bytes");
  const auto states = map.column<uint8_t>("block_state");
  const auto requested = map.column<double>("block_requested");
  EXPECT_LE(bytes.size(), 20'000U);
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0.0), 1024.0 * kMiB);
  EXPECT_EQ(std::accumulate(requested.begin(), requested.end(), 0.0), 30'000.0 * 2048);
  EXPECT_EQ(states[0], 4);
  EXPECT_EQ(map.column<uint32_t>("segment_first"),
            (std::vector<uint32_t>{0, static_cast<uint32_t>(bytes.size())}));
}

}  // namespace
}  // namespace ashlar::view
