// Threads that allocate, trim, pause and resume at once.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "paged_fixture.h"

namespace ashlar::paged {
namespace {

class PagedConcurrency : public PagedBytesFixture {
 protected:
  // Streams run by themselves.
  void SetUp() override {
    machine_options_.backing = sim::Backing::kMemory;
    machine_options_.seed.reset();
    start({}, 2 * kGiB);
  }
};

TEST_F(PagedConcurrency, PausesTrimsAndAllocationsKeepOneMirrorTrue) {
  // No lock of its own: observers are called one at a time.
  std::map<DeviceAddress, size_t> mirror;
  RemapObserver observer;
  observer.after_map = [&](AddressRange range) {
    EXPECT_TRUE(mirror.emplace(range.begin, range.bytes).second) << "mapped twice";
  };
  observer.before_unmap = [&](AddressRange range) {
    EXPECT_EQ(mirror.erase(range.begin), 1U) << "never mapped";
  };
  must(engine_->add_remap_observer(observer));
  PoolOptions tagged;
  tagged.tag = "sleeper";
  make_pool(kPool, tagged);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const StreamId stream = new_stream();
      for (size_t step = 1; step < 60; ++step) {
        if (i == 0 && step % 4 == 0) must(engine_->pause("sleeper", true));
        if (i <= 1 && step % 4 <= 1) must(engine_->resume("sleeper"));
        if (i == 2 && step % 5 == 0) must(engine_->trim());
        if (i == 3 && step == 10) {
          must(engine_->begin_routing(kPool, [stream](StreamId s) { return s == stream; }));
        }
        const Result<Block*> block = engine_->allocate({step * 300'000, stream});
        if (block.ok()) free(*block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  must(engine_->resume("sleeper"));
  const uint64_t mapped_count = calls(DeviceCall::kMap) - calls(DeviceCall::kUnmap);
  EXPECT_EQ(mirror.size(), mapped_count);
  expect_valid();
}

}  // namespace
}  // namespace ashlar::paged
