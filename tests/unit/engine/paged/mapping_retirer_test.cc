// SPDX-License-Identifier: Apache-2.0
//
// Tests that mappings and addresses stay within bounds in programs whose sizes rarely repeat.
#include <map>

#include "base/random.h"
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

class MappingRetirerTest : public PagedFixture {
 protected:
  static constexpr PoolId kPool{0, 1};
  // The number of mappings by which the bound may be exceeded. The request that exceeds the bound
  // only retires mappings; the next request finds their events done and unmaps them.
  static constexpr size_t kSlack = 300;

  void start_with(PagedPolicy policy, size_t max_mappings = 0) {
    AllocatorOptions options;
    options.policy = policy;
    start(options);
    if (max_mappings == 0) return;
    engine_.reset();
    sim::Options small;
    small.device_count = 1;
    small.capacity_bytes = kGiB;
    small.backing = sim::Backing::kBookkeeping;
    small.seed = 1;
    small.max_mappings = max_mappings;
    machine_ = *sim::Machine::try_create(small);
    engine_ = std::make_unique<PagedEngine>(device(), options);
  }

  // Allocates and frees blocks in sizes that rarely repeat.
  void churn(int steps, uint64_t seed = 1) {
    Random random(seed);
    for (int step = 0; step < steps; ++step) {
      const size_t bytes = 2 * kMiB + random.below(size_t{1} << (23 + random.below(6)));
      while (static_cast<size_t>(stats().allocated_bytes.all.current) + bytes > 800 * kMiB) {
        std::swap(live_[random.below(live_.size())], live_.back());
        free(live_.back());
        live_.pop_back();
      }
      live_.push_back(allocate(bytes));
      max_mappings_ = std::max(max_mappings_, mapping_count());
      if (step % 64 == 0) max_address_bytes_ = std::max(max_address_bytes_, address_bytes());
      if (HasFailure()) return;
    }
  }
  // Returns the number of current mappings. Each unmap call removes one mapping.
  size_t mapping_count() const { return calls(DeviceCall::kMap) - calls(DeviceCall::kUnmap); }
  size_t address_bytes() const {
    size_t bytes = 0;
    for (const ExpandableSegmentStats& view : engine_->expandable_segments())
      bytes += view.reserved.bytes;
    return bytes;
  }
  uint64_t waits() const {
    return calls(DeviceCall::kSynchronizeStream) + calls(DeviceCall::kSynchronizeEvent) +
           calls(DeviceCall::kSynchronizeDevice);
  }

  std::vector<Block*> live_;
  size_t max_mappings_ = 0;
  size_t max_address_bytes_ = 0;
};

TEST_F(MappingRetirerTest, ChangingSizesStayWithinBounds) {
  start_with(PagedPolicy::kLean);
  churn(2000);
  const size_t extents = calls(DeviceCall::kCreate) - calls(DeviceCall::kRelease);
  EXPECT_GT(calls(DeviceCall::kMap), 5 * 4096U) << "the bound was never reached";
  EXPECT_LE(max_mappings_, extents + std::max<size_t>(16384, 8 * extents) + kSlack);
  EXPECT_LE(max_address_bytes_, 33 * kGiB);
  EXPECT_EQ(waits(), 0U);
}

// With few mappings of many MiB each, the bound on address space is reached first.
TEST_F(MappingRetirerTest, LargeExtentsStayWithinAddressBound) {
  start_with(PagedPolicy::kFast);
  churn(3000);
  EXPECT_LE(max_address_bytes_, 33 * kGiB);
  EXPECT_GT(calls(DeviceCall::kFreeAddresses), 0U) << "the bound was never reached";
  EXPECT_EQ(waits(), 0U);
}

TEST_F(MappingRetirerTest, RespectsDeviceLimitOnMappings) {
  start_with(PagedPolicy::kLean, 4096);
  churn(1000);
  const size_t extents = calls(DeviceCall::kCreate) - calls(DeviceCall::kRelease);
  EXPECT_GT(calls(DeviceCall::kMap), 4096U) << "the bound was never reached";
  EXPECT_LE(max_mappings_, extents + 1024 + kSlack);
}

TEST_F(MappingRetirerTest, KeepsMappingsUntilQueuedWorkIsDone) {
  start_with(PagedPolicy::kLean, 4096);
  size_t announced_count = 0;
  RemapObserver observer;
  observer.before_unmap = [&](AddressRange) { ++announced_count; };
  must(engine_->add_remap_observer(observer));
  keep_busy(kDefaultStream);
  churn(200);
  EXPECT_EQ(calls(DeviceCall::kUnmap), 0U);
  EXPECT_EQ(announced_count, 0U);
  EXPECT_GT(mapping_count(), calls(DeviceCall::kCreate) + 1024) << "the bound was never reached";
  finish(kDefaultStream);
  churn(200, 2);
  EXPECT_GT(calls(DeviceCall::kUnmap), 0U);
}

// Creating memory for a new view fails, and so does freeing the view's addresses. The empty view
// remains until addresses run out.
TEST_F(MappingRetirerTest, ReleasesEmptyViewWhenAddressesRunOut) {
  start_with(PagedPolicy::kBalanced);
  live_.push_back(allocate(4 * kMiB));
  const StreamId other = new_stream();
  machine_->inject({.call = DeviceCall::kCreate});
  machine_->inject({.call = DeviceCall::kFreeAddresses});
  EXPECT_FALSE(engine_->allocate({8 * kMiB, other}).ok());
  EXPECT_FALSE(engine_->allocate({8 * kMiB, other}).ok()) << "the deferred error is reported";
  EXPECT_EQ(calls(DeviceCall::kFreeAddresses), 0U);
  machine_->inject(
      {.call = DeviceCall::kReserve, .count = 4, .status = Status::out_of_memory("no addresses")});
  live_.push_back(allocate(8 * kMiB, new_stream()));
  EXPECT_EQ(calls(DeviceCall::kFreeAddresses), 1U);
}

TEST_F(MappingRetirerTest, RetiresUnusedMappingsBeforeFailing) {
  start_with(PagedPolicy::kLean, 600);
  churn(1000);
  EXPECT_GT(calls(DeviceCall::kMap), 1200U);
}

TEST_F(MappingRetirerTest, InformsObserversBeforeUnmapping) {
  start_with(PagedPolicy::kLean, 2048);
  std::map<DeviceAddress, size_t> mirror;
  size_t unmapped_count = 0;
  RemapObserver observer;
  observer.after_map = [&](AddressRange range) {
    EXPECT_TRUE(mirror.emplace(range.begin, range.bytes).second) << "mapped twice";
  };
  observer.before_unmap = [&](AddressRange range) {
    EXPECT_EQ(mirror.erase(range.begin), 1U) << "its mapping was never announced";
    EXPECT_EQ(device().describe(range.begin)->kind, MemoryKind::kDevice) << "announced too late";
    ++unmapped_count;
  };
  must(engine_->add_remap_observer(observer));
  churn(600);
  EXPECT_GT(unmapped_count, 0U);
  EXPECT_LE(mirror.size(), mapping_count());
  for (const auto& [address, bytes] : mirror) {
    EXPECT_EQ(device().describe(address)->kind, MemoryKind::kDevice);
  }
}

TEST_F(MappingRetirerTest, ReusesMappingIfUnmapFails) {
  start_with(PagedPolicy::kLean, 2048);
  int64_t mapped = 0;
  RemapObserver observer;
  observer.after_map = [&](AddressRange) { ++mapped; };
  observer.before_unmap = [&](AddressRange) { --mapped; };
  must(engine_->add_remap_observer(observer));
  machine_->inject({.call = DeviceCall::kUnmap});
  Random random(1);
  bool is_reported = false;
  for (int step = 0; step < 2000 && !is_reported; ++step) {
    const Result<Block*> block =
        engine_->allocate({2 * kMiB + random.below(60 * kMiB), kDefaultStream});
    is_reported = !block.ok();
    if (block.ok()) live_.push_back(*block);
    if (live_.size() > 8) {
      std::swap(live_[random.below(live_.size())], live_.back());
      free(live_.back());
      live_.pop_back();
    }
  }
  EXPECT_TRUE(is_reported) << "the error was lost";
  must(engine_->validate());
  for (Block* block : live_) free(block);
  must(engine_->trim());
  EXPECT_EQ(mapped, 0);
}

TEST_F(MappingRetirerTest, KeepsMappingsOfCapturedPool) {
  start_with(PagedPolicy::kLean, 4096);
  const StreamId stream = new_stream();
  must(engine_->begin_routing(kPool, [](StreamId) { return true; }));
  engine_->capture_began();
  must(device().begin_capture(stream, CaptureMode::kRelaxed));
  free(allocate(30 * kMiB, stream));
  const GraphId graph = *device().end_capture(stream);
  must(engine_->capture_ended());
  churn(200);
  EXPECT_EQ(calls(DeviceCall::kUnmap), 0U);
  EXPECT_GT(mapping_count(), calls(DeviceCall::kCreate) + 1024) << "the bound was never reached";
  must(engine_->end_routing(kPool));
  must(device().destroy_graph(graph));
}

TEST_F(MappingRetirerTest, KeepsMappingsOfCheckpointedPool) {
  start_with(PagedPolicy::kLean, 4096);
  must(engine_->begin_routing(kPool, [](StreamId) { return true; }));
  live_.push_back(allocate(30 * kMiB));
  const Result<PoolCheckpoint> checkpoint = engine_->checkpoint(kPool);
  ASSERT_TRUE(checkpoint.ok());
  churn(200);
  EXPECT_EQ(calls(DeviceCall::kUnmap), 0U);
  EXPECT_TRUE(engine_->restore(*checkpoint).ok());
  must(engine_->end_routing(kPool));
}

TEST_F(MappingRetirerTest, BoundsMappingsOfPrivatePools) {
  start_with(PagedPolicy::kLean, 2048);
  must(engine_->begin_routing(kPool, [](StreamId) { return true; }));
  churn(600);
  EXPECT_GT(calls(DeviceCall::kUnmap), 0U);
  must(engine_->end_routing(kPool));
}

TEST_F(MappingRetirerTest, PauseKeepsRetirements) {
  start_with(PagedPolicy::kLean, 4096);
  PoolOptions options;
  options.tag = "tag";
  must(engine_->create_pool(kPool, options));
  must(engine_->begin_routing(kPool, [](StreamId) { return true; }));
  keep_busy(kDefaultStream);
  churn(200);  // retires mappings that the stream keeps from being unmapped
  finish(kDefaultStream);
  must(engine_->pause("tag", false));
  must(engine_->resume("tag"));
  must(engine_->validate());
  churn(600, 2);
  must(engine_->end_routing(kPool));
}

// The mappings that a loop reuses are recent, so they are not retired.
TEST_F(MappingRetirerTest, SteadyLoopKeepsItsMappings) {
  start_with(PagedPolicy::kLean, 4096);
  churn(1500);
  for (Block* block : std::exchange(live_, {})) free(block);
  const auto round = [&] {
    std::vector<Block*> blocks;
    for (size_t i = 1; i <= 12; ++i) blocks.push_back(allocate(i * 5 * kMiB));
    for (size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
    Block* large = allocate(150 * kMiB);
    for (size_t i = 1; i < blocks.size(); i += 2) free(blocks[i]);
    free(large);
  };
  for (int i = 0; i < 20; ++i) round();
  reset_call_counts();
  for (int i = 0; i < 20; ++i) round();
  EXPECT_EQ(all_calls(), 0U);
}

}  // namespace
}  // namespace ashlar::paged
