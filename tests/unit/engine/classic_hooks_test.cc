// SPDX-License-Identifier: Apache-2.0
//
// Tests of trackers, observers, callbacks and other user code: when it runs, and that it may call
// the engine.
#include <gmock/gmock.h>

#include <thread>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

using enum TraceAction;
using ::testing::ElementsAre;

class ClassicHooksTest : public ClassicFixture {
 protected:
  std::vector<TraceAction> actions() {
    std::vector<TraceAction> actions;
    for (const TraceEntry& entry : std::exchange(trace_, {})) actions.push_back(entry.action);
    return actions;
  }
};

TEST_F(ClassicHooksTest, TrackersSeeEveryOperationInOrder) {
  start();
  Block* block = allocate(100);
  ASSERT_EQ(trace_.size(), 2U);
  EXPECT_EQ(trace_[0].bytes, 2 * kMiB);
  EXPECT_EQ(trace_[1].bytes, 100U) << "as requested";
  EXPECT_EQ(trace_[1].address, block->address);
  EXPECT_EQ(trace_[1].device, DeviceIndex(0));
  EXPECT_THAT(actions(), ElementsAre(kSegmentAlloc, kAlloc));
  const StreamId other = busy_stream();
  use_on(block, other);
  free(block);
  EXPECT_THAT(actions(), ElementsAre(kFreeRequested));
  finish(other);
  trim();
  EXPECT_THAT(actions(), ElementsAre(kFreeCompleted, kSegmentFree));
}

TEST_F(ClassicHooksTest, OomEntryHasRoundedSizeAndFreeMemory) {
  start({}, 64 * kMiB);
  EXPECT_EQ(allocation_error(100 * kMiB + 1).kind(), StatusKind::kOutOfMemory);
  ASSERT_FALSE(trace_.empty());
  EXPECT_EQ(trace_.back().action, kOom);
  EXPECT_EQ(trace_.back().bytes, 100 * kMiB + 512);
  EXPECT_EQ(trace_.back().address, DeviceAddress(64 * kMiB));
}

TEST_F(ClassicHooksTest, TrackerMayCallTheEngine) {
  start();
  std::vector<TraceAction> seen;
  Block* own = nullptr;
  engine_->add_tracker([&](const TraceEntry& entry) {
    seen.push_back(entry.action);
    if (entry.action == kSegmentAlloc && own == nullptr) own = *engine_->allocate({512, {}});
  });
  Block* block = allocate(512);
  EXPECT_THAT(seen, ElementsAre(kSegmentAlloc, kAlloc, kAlloc));
  ASSERT_EQ(trace_.size(), 3U);
  EXPECT_EQ(trace_[1].address, block->address) << "the tracker's own operation comes after it";
  EXPECT_EQ(trace_[2].address, own->address);
}

TEST_F(ClassicHooksTest, OomObserversMayCallTheEngine) {
  start({}, 64 * kMiB);
  int heard = 0;
  for (int i = 0; i < 2; ++i) {
    engine_->add_oom_observer([&](const OomNotice& notice) {
      ++heard;
      EXPECT_EQ(notice.wanted_bytes, 100 * kMiB);
      EXPECT_EQ(notice.limit_bytes, 64 * kMiB);
      EXPECT_EQ(notice.device_free_bytes, 64 * kMiB);
      EXPECT_EQ(engine_->stats().ooms, 1);
      Block* small = *engine_->allocate({512, {}});
      must(engine_->free(small));
      must(engine_->trim({}));
    });
  }
  EXPECT_EQ(allocation_error(100 * kMiB).kind(), StatusKind::kOutOfMemory);
  EXPECT_EQ(heard, 2);
}

TEST_F(ClassicHooksTest, ReclaimedAllocationDoesNotNotifyObservers) {
  start();
  int heard = 0;
  engine_->add_oom_observer([&](const OomNotice&) { ++heard; });
  inject_out_of_memory(DeviceCall::kAllocate, 1);
  allocate(512);
  EXPECT_EQ(heard, 0);
}

TEST_F(ClassicHooksTest, CallbacksMayAllocate) {
  start();
  std::vector<int> asked;
  bool nested = false;
  engine_->add_free_memory_callback([&] {
    asked.push_back(1);
    if (!std::exchange(nested, true)) must(engine_->allocate({512, {}}).status());
    return true;
  });
  engine_->add_free_memory_callback([&] {
    asked.push_back(2);
    return false;
  });
  allocate(20 * kMiB);
  EXPECT_THAT(asked, ElementsAre(1, 1, 2, 2)) << "also for the allocation of the first callback";
}

TEST_F(ClassicHooksTest, CacheHitSkipsCallbacks) {
  start();
  cache(512);
  int asked = 0;
  engine_->add_free_memory_callback([&] { return ++asked != 0; });
  allocate(512);
  EXPECT_EQ(asked, 0);
}

TEST_F(ClassicHooksTest, AllocationKeepsItsStackAcrossCallbacks) {
  AllocatorOptions options;
  options.pytorch_compatible = true;  // calls the device with the lock held
  start(options);
  Block* spare = allocate(2 * kMiB);
  engine_->add_free_memory_callback([&] {
    if (spare != nullptr) must(engine_->free(std::exchange(spare, nullptr), StackId(1)));
    return false;
  });
  trace_.clear();
  must(engine_->allocate({20 * kMiB, {}, StackId(2)}).status());
  ASSERT_EQ(trace_.size(), 4U);
  EXPECT_EQ(trace_[0].stack, StackId(1)) << "the callback's free";
  EXPECT_EQ(trace_[2].action, kSegmentAlloc);
  EXPECT_EQ(trace_[2].stack, StackId(2));
}

TEST_F(ClassicHooksTest, UnpinDoesNotUseEarlierStack) {
  start();
  Block* block = *engine_->allocate({512, {}, StackId(1)});
  engine_->pin(block);
  free(block);
  must(engine_->allocate({512, {}, StackId(2)}).status());
  engine_->unpin(block);
  EXPECT_EQ(trace_.back().action, kFreeCompleted);
  EXPECT_EQ(trace_.back().stack, StackId(1)) << "only the allocating stack is known";
}

// A user object that calls the engine in its destructor.
struct CallsEngineInDestructor {
  explicit CallsEngineInDestructor(ClassicEngine& looked_at) : engine(looked_at) {}
  ~CallsEngineInDestructor() { (void)engine.stats(); }
  ClassicEngine& engine;
};

class EngineCallingSource final : public SegmentSource {
 public:
  explicit EngineCallingSource(ClassicEngine& engine) : caller_(engine) {}
  Result<DeviceAddress> allocate(size_t, StreamId) override {
    return Status::out_of_memory("the source is empty");
  }
  void free(DeviceAddress, size_t) override {}

 private:
  CallsEngineInDestructor caller_;
};

TEST_F(ClassicHooksTest, SourceMayCallTheEngineWhenDestroyed) {
  start();
  must(
      engine_->create_pool(kUserPool, {.source = std::make_shared<EngineCallingSource>(*engine_)}));
  must(engine_->release_pool(kUserPool));
  trim();
  EXPECT_FALSE(engine_->pool_use_count(kUserPool).ok());
}

// A source with memory for one segment. When it refuses a request for the second time, a callback
// frees that segment on another thread.
class ConcurrentlyFreedSource final : public SegmentSource {
 public:
  explicit ConcurrentlyFreedSource(std::function<void()> on_second_call)
      : on_second_call_(std::move(on_second_call)) {}
  Result<DeviceAddress> allocate(size_t, StreamId) override {
    if (!std::exchange(is_taken_, true)) return DeviceAddress(2 * kMiB);
    if (++refused_count_ == 2) on_second_call_();
    return Status::out_of_memory("the source has one segment");
  }
  void free(DeviceAddress, size_t) override { is_taken_ = false; }

 private:
  const std::function<void()> on_second_call_;
  bool is_taken_ = false;
  int refused_count_ = 0;
};

TEST_F(ClassicHooksTest, ConcurrentFreeServesRetriedRequest) {
  for (const bool caching : {true, false}) {
    start();
    Block* others = nullptr;
    auto source = std::make_shared<ConcurrentlyFreedSource>(
        [&] { std::thread([&] { must(engine_->free(std::exchange(others, nullptr))); }).join(); });
    const auto allocate_in = [&](PoolId pool) {
      must(engine_->create_pool(pool, {.source = source}));
      must(engine_->begin_routing(pool, [](StreamId) { return true; }));
      Result<Block*> block = engine_->allocate({2 * kMiB, {}});
      end_route(pool);
      return block;
    };
    others = *allocate_in(kUserPool);
    for (int user = 0; user < 2; ++user)
      must(engine_->release_pool(kUserPool));  // creation and routing have retained the pool
    engine_->set_caching(caching);
    EXPECT_TRUE(allocate_in({0, 2}).ok());
    EXPECT_EQ(others, nullptr);
  }
}

TEST_F(ClassicHooksTest, FilterMayCallTheEngineWhenDestroyed) {
  start();
  const auto filter = [&] {
    return
        [caller = std::make_shared<CallsEngineInDestructor>(*engine_)](StreamId) { return true; };
  };
  must(engine_->begin_routing(kUserPool, filter()));
  EXPECT_FALSE(engine_->begin_routing(kUserPool, filter()).ok());
  end_route(kUserPool);
}

}  // namespace
}  // namespace ashlar::classic
