// SPDX-License-Identifier: Apache-2.0
//
// Tests that remap observers can keep a mirror of the device's mappings.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

class RemapObserverTest : public PagedBytesFixture {
 protected:
  using Mirror = std::map<DeviceAddress, size_t>;

  void SetUp() override {
    PagedBytesFixture::SetUp();
    observe(mirror_);
  }
  void observe(Mirror& mirror) {
    RemapObserver observer;
    observer.after_map = [&](AddressRange range) {
      EXPECT_TRUE(mirror.emplace(range.begin, range.bytes).second) << "mapped twice";
      EXPECT_TRUE(is_mapped(range.begin)) << "not mapped";
    };
    observer.before_unmap = [&](AddressRange range) {
      const auto found = mirror.find(range.begin);
      ASSERT_NE(found, mirror.end()) << "its mapping was never announced";
      EXPECT_EQ(found->second, range.bytes);
      EXPECT_TRUE(is_mapped(range.begin)) << "announced too late";
      mirror.erase(found);
    };
    must(engine_->add_remap_observer(observer));
  }
  bool is_mapped(DeviceAddress at) { return device().describe(at)->kind == MemoryKind::kDevice; }
  // Compares the mirror with the device's state of every reserved granule.
  void expect_matches_device(const Mirror& mirror) {
    const size_t granule_bytes = device().properties().granularity_bytes;
    std::set<DeviceAddress> announced;
    for (const auto& [begin, bytes] : mirror) {
      for (size_t at = 0; at < bytes; at += granule_bytes) announced.insert(begin + at);
    }
    std::set<DeviceAddress> mapped;
    for (const ExpandableSegmentStats& view : engine_->expandable_segments()) {
      for (size_t at = 0; at < view.reserved.bytes; at += granule_bytes) {
        if (is_mapped(view.reserved.begin + at)) mapped.insert(view.reserved.begin + at);
      }
    }
    EXPECT_EQ(announced, mapped);
  }

  Mirror mirror_;
};

TEST_F(RemapObserverTest, AnnouncesMappingBeforeItsFirstBlock) {
  Block* block = allocate(5 * kMiB);
  ASSERT_FALSE(mirror_.empty());
  expect_matches_device(mirror_);
  const auto after = mirror_.upper_bound(block->address);
  ASSERT_NE(after, mirror_.begin());
  EXPECT_LT(block->address, std::prev(after)->first + std::prev(after)->second);
  free(block);
  EXPECT_FALSE(mirror_.empty()) << "cached memory stays mapped";
  must(engine_->trim());
  EXPECT_TRUE(mirror_.empty());
}

// Trackers run after memory is mapped and before it is announced. An allocation in a tracker stands
// for an allocation by another thread at this moment.
TEST_F(RemapObserverTest, AnnouncesMappingBeforeAnyOtherBlock) {
  bool is_nested = false;
  engine_->add_tracker([&](const TraceEntry& entry) {
    if (entry.action != TraceAction::kAlloc || std::exchange(is_nested, true)) return;
    EXPECT_TRUE(mirror_.empty());
    allocate(500);
    EXPECT_EQ(calls(DeviceCall::kMap), 1U) << "it must share the mapping of the other block";
    EXPECT_EQ(mirror_.size(), 1U);
  });
  allocate(500);
  EXPECT_TRUE(is_nested);
}

TEST_F(RemapObserverTest, AnnouncesStitchedMappings) {
  std::vector<Block*> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(allocate(20 * kMiB));
  Block* last = allocate(20 * kMiB);
  for (Block* part : parts) free(part);
  const size_t before = mirror_.size();
  Block* whole = allocate(78 * kMiB);
  EXPECT_GE(mirror_.size(), before);
  expect_matches_device(mirror_);
  free(whole);
  free(last);
  must(engine_->trim());
  expect_matches_device(mirror_);
}

TEST_F(RemapObserverTest, MirrorFollowsRandomOperations) {
  PoolOptions tagged;
  tagged.tag = "tag";
  make_pool(kPool, tagged);
  Random random(7);
  std::vector<Block*> live;
  const StreamId side = new_stream();
  for (int step = 0; step < 600; ++step) {
    const uint64_t choice = random.below(100);
    if (choice == 0) must(engine_->trim());
    if (choice == 1) must(engine_->pause("tag", random.below(2) == 0));
    if (choice >= 1 && choice <= 3) must(engine_->resume("tag"));
    if (choice % 7 == 0) route(kPool);
    if (choice < 60) {
      const size_t bytes = 1 + random.below(choice < 30 ? 20 * kMiB : 100'000);
      const Result<Block*> block =
          engine_->allocate({bytes, choice % 2 == 0 ? side : kDefaultStream});
      if (block.ok()) live.push_back(*block);
    }
    if (choice % 7 == 0) end_route(kPool);
    if (choice >= 50 && !live.empty()) {
      std::swap(live[random.below(live.size())], live.back());
      free(live.back());
      live.pop_back();
    }
    if (step % 20 == 0) expect_matches_device(mirror_);
    if (testing::Test::HasFailure()) return;
  }
  for (Block* block : live) free(block);
  must(engine_->trim());
  expect_matches_device(mirror_);
}

TEST_F(RemapObserverTest, AnnouncesMappingAgainIfUnmapFails) {
  free(allocate(5 * kMiB));
  machine_->inject({.call = DeviceCall::kUnmap});
  EXPECT_FALSE(engine_->trim().ok());
  EXPECT_FALSE(mirror_.empty());
  expect_matches_device(mirror_);
  must(engine_->trim());
  EXPECT_TRUE(mirror_.empty());
}

TEST_F(RemapObserverTest, DoesNotAnnounceFailedMapping) {
  machine_->inject({.call = DeviceCall::kSetAccess});
  EXPECT_FALSE(engine_->allocate({5 * kMiB, kDefaultStream}).ok());
  EXPECT_TRUE(mirror_.empty());
  machine_->inject({.call = DeviceCall::kSetAccess});
  machine_->inject({.call = DeviceCall::kUnmap});
  EXPECT_FALSE(engine_->allocate({5 * kMiB, kDefaultStream}).ok());
  expect_matches_device(mirror_);
}

TEST_F(RemapObserverTest, LateObserverGetsExistingMappings) {
  allocate(5 * kMiB);
  allocate(500);
  Mirror late;
  observe(late);
  EXPECT_EQ(late, mirror_);
  must(engine_->trim());
  EXPECT_EQ(late, mirror_);
}

TEST_F(RemapObserverTest, ObserversMayCallTheEngine) {
  Mirror second;
  RemapObserver caller;
  int depth = 0;
  caller.after_map = [&](AddressRange) {
    if (++depth == 1) must(engine_->trim());
    if (depth == 1) free(allocate(40 * kMiB));
    --depth;
  };
  caller.before_unmap = [&](AddressRange) {
    expect_kind(engine_->pause("none", false), StatusKind::kInvalidArgument);
  };
  must(engine_->add_remap_observer(caller));
  observe(second);
  free(allocate(5 * kMiB));
  expect_matches_device(mirror_);
  EXPECT_EQ(second, mirror_);
  must(engine_->trim());
  EXPECT_TRUE(second.empty());
}

TEST_F(RemapObserverTest, NeverRemapPoolMapsEachAddressOnce) {
  PoolOptions never;
  never.never_remap = true;
  make_pool(kPool, never);
  route(kPool);
  const StreamId side = new_stream();
  std::set<DeviceAddress> begins;
  RemapObserver observer;
  bool is_over = false;
  observer.after_map = [&](AddressRange range) {
    EXPECT_TRUE(begins.insert(range.begin).second) << "mapped again";
  };
  observer.before_unmap = [&](AddressRange) { EXPECT_TRUE(is_over) << "unmapped too early"; };
  must(engine_->add_remap_observer(observer));
  Block* kept = allocate(3 * kMiB);
  for (size_t i = 1; i < 12; ++i) free(allocate(i * 5 * kMiB, i % 2 == 0 ? side : kDefaultStream));
  EXPECT_EQ(calls(DeviceCall::kMap), calls(DeviceCall::kCreate)) << "no extent is mapped twice";
  must(engine_->trim());
  end_route(kPool);
  must(engine_->release_pool(kPool));
  must(engine_->release_pool(kPool));
  must(engine_->trim());
  free(kept);
  is_over = true;
  must(engine_->trim());
  EXPECT_FALSE(engine_->pool_use_count(kPool).ok());
}

}  // namespace
}  // namespace ashlar::paged
