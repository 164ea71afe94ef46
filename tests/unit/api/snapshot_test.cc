// SPDX-License-Identifier: Apache-2.0
//
// Tests of the snapshots and the history of an allocator.
#include "ashlar/snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "ashlar/allocator.h"
#include "ashlar/sim.h"
#include "base/random.h"
#include "base/units.h"
#include "format/renumber_tables.h"
#include "format/snapshot_pickle.h"

namespace ashlar {
namespace {

class SnapshotTest : public ::testing::Test {
 protected:
  SnapshotTest() {
    sim::Options options;
    options.device_count = 2;
    options.capacity_bytes = kGiB;
    options.backing = sim::Backing::kBookkeeping;
    options.seed = 1;
    machine_ = *sim::Machine::try_create(options);
  }
  Device& device() { return machine_->device(DeviceIndex(1)); }
  std::unique_ptr<sim::Machine> machine_;
};

std::string innermost(const Snapshot& snapshot, StackId stack) {
  const Stack& found = snapshot.tables.stacks[stack.value()];
  return found.frames.empty() ? "" : snapshot.tables.frames[found.frames[0]].name;
}

__attribute__((noinline)) Buffer allocate_weights(Allocator& allocator) {
  Buffer buffer = allocator.allocate(3 * kMiB);
  asm volatile("");
  return buffer;
}

__attribute__((noinline)) void drop_weights(Buffer& buffer) {
  buffer.reset();
  asm volatile("");
}

TEST_F(SnapshotTest, ListsSegmentsWithBlocks) {
  Allocator allocator(device(), parse_options("engine:classic"));
  const Buffer one = allocator.allocate(1000);
  const Buffer two = allocator.allocate(3 * kMiB);
  const Snapshot snapshot = allocator.snapshot();
  ASSERT_EQ(snapshot.segments.size(), 2U);
  size_t total = 0;
  for (const SnapshotSegment& segment : snapshot.segments) {
    EXPECT_EQ(segment.device, DeviceIndex(1));
    size_t bytes = 0;
    for (const SnapshotBlock& block : segment.blocks) {
      EXPECT_EQ(block.address, segment.address + bytes);
      bytes += block.bytes;
    }
    EXPECT_EQ(bytes, segment.total_bytes);
    total += segment.total_bytes;
    const Buffer& buffer = segment.is_large ? two : one;
    EXPECT_EQ(segment.blocks[0].address, buffer.address());
    EXPECT_EQ(segment.blocks[0].state, SnapshotBlockState::kAllocated);
    EXPECT_EQ(segment.requested_bytes, buffer.bytes());
    EXPECT_EQ(segment.blocks[1].state, SnapshotBlockState::kInactive);
  }
  EXPECT_EQ(total, static_cast<size_t>(allocator.stats().reserved_bytes.all.current));
}

TEST_F(SnapshotTest, ListsMappedRangesOfExpandableSegment) {
  Allocator allocator(device(), parse_options("engine:classic,expandable_segments:True"));
  Buffer first = allocator.allocate(20 * kMiB);
  Buffer second = allocator.allocate(20 * kMiB);
  const Buffer third = allocator.allocate(20 * kMiB);
  second.reset();
  allocator.trim();
  const Snapshot snapshot = allocator.snapshot();
  ASSERT_EQ(snapshot.segments.size(), 2U);
  EXPECT_TRUE(snapshot.segments[0].is_expandable);
  EXPECT_EQ(snapshot.segments[0].total_bytes, 20 * kMiB);
  EXPECT_EQ(snapshot.segments[1].address, third.address());
}

TEST_F(SnapshotTest, RestrictsSegmentsToOnePool) {
  Allocator allocator(device(), AllocatorOptions{});
  const Buffer outside = allocator.allocate(1000);
  const PoolId pool = allocator.pools().create();
  allocator.pools().begin_routing(pool, [](StreamId) { return true; });
  const Buffer inside = allocator.allocate(1000);
  allocator.pools().end_routing(pool);
  const Snapshot snapshot = allocator.snapshot({.pool = pool});
  ASSERT_EQ(snapshot.segments.size(), 1U);
  EXPECT_EQ(snapshot.segments[0].pool, pool);
  EXPECT_TRUE(allocator.snapshot({.pool = PoolId{0, 99}}).segments.empty());
}

TEST_F(SnapshotTest, TraceHasActionsAndStacks) {
  Allocator allocator(device(), parse_options("engine:classic"));
  HistoryOptions options;
  options.context = RecordContext::kAll;
  allocator.history().start(options);
  Buffer weights = allocate_weights(allocator);
  Snapshot snapshot = allocator.snapshot();
  const SnapshotBlock& block = snapshot.segments[0].blocks[0];
  EXPECT_NE(innermost(snapshot, block.stack).find("allocate_weights"), std::string::npos)
      << innermost(snapshot, block.stack);
  drop_weights(weights);
  snapshot = allocator.snapshot();
  ASSERT_EQ(snapshot.device_traces.size(), 2U);
  std::vector<std::string_view> actions;
  for (const TraceEntry& entry : snapshot.device_traces[1]) actions.push_back(name(entry.action));
  EXPECT_EQ(actions,
            (std::vector<std::string_view>{"segment_alloc", "alloc", "snapshot", "free_requested",
                                           "free_completed", "snapshot"}));
  const TraceEntry& freed = snapshot.device_traces[1][3];
  EXPECT_NE(innermost(snapshot, freed.stack).find("drop_weights"), std::string::npos)
      << innermost(snapshot, freed.stack);
  EXPECT_EQ(freed.bytes, 3 * kMiB);
}

TEST_F(SnapshotTest, FreeUsesAllocationStackWithoutFreeStacks) {
  Allocator allocator(device(), AllocatorOptions{});
  HistoryOptions options;
  options.context = RecordContext::kAlloc;
  allocator.history().start(options);
  Buffer weights = allocate_weights(allocator);
  drop_weights(weights);
  const Snapshot snapshot = allocator.snapshot();
  std::map<TraceAction, StackId> stacks;
  for (const TraceEntry& entry : snapshot.device_traces[1]) stacks[entry.action] = entry.stack;
  ASSERT_TRUE(stacks.contains(TraceAction::kAlloc));
  EXPECT_NE(innermost(snapshot, stacks[TraceAction::kAlloc]), "");
  EXPECT_EQ(stacks[TraceAction::kFreeRequested], stacks[TraceAction::kAlloc]);
}

TEST_F(SnapshotTest, OmitsTracesOnRequest) {
  Allocator allocator(device(), AllocatorOptions{});
  allocator.history().start();
  const Buffer buffer = allocator.allocate(100);
  EXPECT_TRUE(allocator.snapshot({.include_traces = false}).device_traces[1].empty());
  EXPECT_TRUE(allocator.history().is_recording());
  allocator.history().stop();
  EXPECT_TRUE(allocator.snapshot().device_traces[1].empty());
}

TEST_F(SnapshotTest, RecordsRegionsAndAnnotations) {
  Allocator allocator(device(), AllocatorOptions{});
  allocator.history().start();
  const Buffer buffer = allocator.allocate(100);
  { const Region region(allocator, "forward"); }
  allocator.history().annotate(buffer.address(), "the weights");
  EXPECT_THROW(allocator.history().annotate(buffer.address() + 512, "nothing"), InvalidArgument);
  const Snapshot snapshot = allocator.snapshot();
  ASSERT_EQ(snapshot.annotations.size(), 2U);
  EXPECT_EQ(snapshot.annotations[0].fields[1].second, "START");
  EXPECT_EQ(snapshot.annotations[1].fields[1].second, "END");
  const TraceEntry& said = snapshot.device_traces[1][2];
  EXPECT_EQ(said.action, TraceAction::kAnnotate);
  EXPECT_EQ(snapshot.tables.strings[said.user_metadata.value()], "the weights");
}

TEST_F(SnapshotTest, IncludesSettingsOfAllocator) {
  Allocator allocator(device(), parse_options("max_split_size_mb:64,expandable_segments:True"));
  const Snapshot snapshot = allocator.snapshot();
  const std::map<std::string, SettingValue> settings(snapshot.settings.begin(),
                                                     snapshot.settings.end());
  EXPECT_EQ(std::get<int64_t>(settings.at("max_split_size")), static_cast<int64_t>(64 * kMiB));
  EXPECT_TRUE(std::get<bool>(settings.at("expandable_segments")));
}

TEST_F(SnapshotTest, SavedSnapshotReadsBackEqual) {
  Allocator allocator(device(), AllocatorOptions{});
  HistoryOptions options;
  options.context = RecordContext::kAll;
  allocator.history().start(options);
  push_compile_context("a region");
  Buffer weights = allocate_weights(allocator);
  pop_compile_context();
  drop_weights(weights);
  { const Region region(allocator, "forward"); }
  Snapshot snapshot = allocator.snapshot();
  const std::string path = ::testing::TempDir() + "/ashlar_snapshot_test.pickle";
  save_snapshot(snapshot, path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::remove(path.c_str());
  MemorySource source(bytes);
  const Result<Snapshot> read = read_snapshot_pickle(source);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  renumber_tables(snapshot);
  EXPECT_EQ(*read, snapshot);
  EXPECT_GT(read->extents.size(), 0U);
}

TEST_F(SnapshotTest, DatesExtentsByClockOfTrace) {
  Allocator allocator(device(), parse_options("engine:paged"));
  HistoryOptions history;
  history.context = RecordContext::kNever;
  allocator.history().start(history);
  const Buffer before = allocator.allocate(20 * kMiB);
  const Buffer mapped = allocator.allocate(40 * kMiB);
  const Snapshot snapshot = allocator.snapshot();
  size_t mapped_count = 0;
  for (const TraceEntry& entry : snapshot.device_traces[1]) {
    if (entry.action != TraceAction::kSegmentMap) continue;
    for (const SnapshotExtent& extent : snapshot.extents) {
      EXPECT_EQ(extent.device, DeviceIndex(1));
      ASSERT_EQ(extent.mappings.size(), 1U);
      if (extent.mappings[0].address != entry.address) continue;
      ++mapped_count;
      EXPECT_EQ(extent.bytes, entry.bytes) << "each extent has its own entry";
      EXPECT_LE(extent.mappings[0].mapped_at_us, entry.time_us + 1) << "both are rounded down";
      EXPECT_GE(extent.mappings[0].mapped_at_us, snapshot.device_traces[1][0].time_us - 10'000'000);
    }
  }
  EXPECT_GT(mapped_count, 1U);
  EXPECT_EQ(mapped_count, snapshot.extents.size());
}

TEST_F(SnapshotTest, ListsNoExtentsForEnginesWithoutThem) {
  Allocator allocator(device(), parse_options("engine:classic,expandable_segments:True"));
  const Buffer buffer = allocator.allocate(20 * kMiB);
  const Snapshot snapshot = allocator.snapshot();
  EXPECT_EQ(snapshot.segments.size(), 1U);
  EXPECT_TRUE(snapshot.views.empty() && snapshot.extents.empty());
}

TEST_F(SnapshotTest, ThrowsIfFileCannotBeWritten) {
  Allocator allocator(device(), AllocatorOptions{});
  EXPECT_THROW(save_snapshot(allocator.snapshot(), "/no/such/folder/x.pickle"), DeviceError);
}

TEST(SnapshotConcurrencyTest, TakesSnapshotWhileThreadsAllocate) {
  sim::Options options;
  options.capacity_bytes = kGiB;
  options.backing = sim::Backing::kBookkeeping;
  const std::unique_ptr<sim::Machine> machine = *sim::Machine::try_create(options);
  Allocator allocator(machine->device(DeviceIndex(0)), AllocatorOptions{});
  HistoryOptions history;
  history.max_entries = 500;
  history.context = RecordContext::kAll;
  allocator.history().start(history);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < 200; ++i) {
        const Buffer buffer = allocator.allocate(512 * (i % 7 + 1));
      }
    });
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_LE(allocator.snapshot().device_traces[0].size(), 500U);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.snapshot().device_traces[0].size(), 500U);
}

class SnapshotConsistencyConcurrencyTest : public SnapshotTest,
                                           public ::testing::WithParamInterface<const char*> {};

// The requested bytes of each live block, keyed by address.
using LiveBlocks = std::map<uint64_t, size_t>;

LiveBlocks live_by_trace(const Snapshot& snapshot) {
  LiveBlocks live;
  for (const TraceEntry& entry : snapshot.device_traces[1]) {
    const uint64_t address = entry.address.value();
    if (entry.action == TraceAction::kAlloc) {
      EXPECT_TRUE(live.emplace(address, entry.bytes).second) << "allocated twice";
    }
    if (entry.action == TraceAction::kFreeCompleted) {
      EXPECT_EQ(live.erase(address), 1U) << "freed, but not allocated";
    }
  }
  return live;
}

LiveBlocks live_by_segments(const Snapshot& snapshot) {
  LiveBlocks live;
  for (const SnapshotSegment& segment : snapshot.segments) {
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state != SnapshotBlockState::kAllocated) continue;
      live.emplace(block.address.value(), block.requested_bytes);
    }
  }
  return live;
}

TEST_P(SnapshotConsistencyConcurrencyTest, SegmentsAndTraceAreConsistent) {
  Allocator allocator(device(), parse_options(GetParam()));
  allocator.history().start({.max_entries = 1'000'000});
  std::atomic<bool> is_over = false;
  const auto work = [&](StreamId stream, uint64_t seed) {
    Random random(seed);
    std::vector<Buffer> held(16);
    // The number of operations is below the capacity of the history.
    for (int i = 0; i < 60'000 && !is_over.load(); ++i) {
      Buffer& each = held[random.below(held.size())];
      each.reset();
      each = allocator.allocate(1 + random.below(3 * kMiB), stream);
      if (random.below(16) == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    while (!is_over.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::thread one(work, *device().create_stream(), 1);
  std::thread two(work, *device().create_stream(), 2);
  for (int i = 0; i < 40; ++i) {
    const Snapshot snapshot = allocator.snapshot();
    ASSERT_FALSE(snapshot.device_traces[1].empty());
    EXPECT_EQ(snapshot.device_traces[1].back().action, TraceAction::kSnapshot);
    EXPECT_EQ(live_by_trace(snapshot), live_by_segments(snapshot));
    if (HasFailure()) break;
  }
  is_over = true;
  one.join();
  two.join();
}

INSTANTIATE_TEST_SUITE_P(Engines, SnapshotConsistencyConcurrencyTest,
                         ::testing::Values("engine:classic", "engine:paged"),
                         [](const auto& each) { return std::string(each.param).substr(7); });

}  // namespace
}  // namespace ashlar
