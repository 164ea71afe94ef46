// SPDX-License-Identifier: Apache-2.0
//
// Tests of the slow path: the steps before an allocation fails, and the error message.
#include "engine/paged/miss_handler.h"

#include "unit/engine/paged/paged_fixture.h"

namespace ashlar::paged {
namespace {

class MissHandlerTest : public PagedFixture {};

TEST_F(MissHandlerTest, CallbacksMayFreeMemoryBeforeTheEngineGrows) {
  start();
  Block* cached = allocate(32 * kMiB);
  engine_->add_free_memory_callback([&] {
    if (cached == nullptr) return false;
    free(std::exchange(cached, nullptr));
    return true;
  });
  reset_call_counts();
  allocate(32 * kMiB);
  EXPECT_EQ(cached, nullptr);
  EXPECT_EQ(calls(DeviceCall::kCreate), 0U);
}

TEST_F(MissHandlerTest, BorrowsFromOverflowPoolsWhenTheDeviceIsFull) {
  start({}, 128 * kMiB);
  make_pool(kPool, {.use_on_oom = true});
  route(kPool);
  free(allocate(64 * kMiB));
  end_route(kPool);
  allocate(60 * kMiB);
  EXPECT_NE(allocate(64 * kMiB), nullptr);
  EXPECT_EQ(stats().ooms, 0);
}

TEST_F(MissHandlerTest, TrimsOtherPoolsBeforeFailing) {
  start({}, 128 * kMiB);
  route(kPool);
  free(allocate(64 * kMiB));
  end_route(kPool);
  must(engine_->release_pool(kPool));
  EXPECT_NE(allocate(100 * kMiB), nullptr);
  EXPECT_EQ(stats().alloc_retries, 1);
}

TEST_F(MissHandlerTest, ReportNamesRequestDeviceAndLimit) {
  start({}, 128 * kMiB);
  must(engine_->set_memory_fraction(0.5));
  allocate(32 * kMiB);
  const Status failed = allocation_error(48 * kMiB);
  EXPECT_TRUE(failed.is_out_of_memory());
  for (const char* part : {"48.00 MiB", "128.00 MiB in total", "limit of this process is 64.00 MiB",
                           "32.00 MiB is allocated"}) {
    EXPECT_NE(failed.message().find(part), std::string::npos) << part << ": " << failed.message();
  }
  EXPECT_EQ(stats().ooms, 1);
}

TEST_F(MissHandlerTest, ReportNamesMemoryCachedByPrivatePools) {
  start({}, 128 * kMiB);
  route(kPool);
  free(allocate(64 * kMiB));
  allocate(16 * kMiB);
  end_route(kPool);
  const Status failed = allocation_error(100 * kMiB);
  EXPECT_NE(failed.message().find("MiB is cached by private pools."), std::string::npos)
      << failed.message();
}

TEST_F(MissHandlerTest, RefusesMoreThanTheDeviceHasWithoutPlanning) {
  start({}, 128 * kMiB);
  reset_call_counts();
  EXPECT_TRUE(allocation_error(kGiB).is_out_of_memory());
  EXPECT_EQ(calls(DeviceCall::kCreate) + calls(DeviceCall::kReserve), 0U);
}

TEST_F(MissHandlerTest, UncachedBlockIsReleasedWhenFreed) {
  start();
  engine_->set_caching(false);
  Block* block = allocate(5 * kMiB);
  EXPECT_EQ(used_bytes(), 5 * kMiB);
  free(block);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(MissHandlerTest, UncachedRequestRunsCallbacksBeforeOom) {
  start({}, 256 * kMiB);
  engine_->set_caching(false);
  Block* kept = allocate(200 * kMiB);
  int call_count = 0;
  engine_->add_free_memory_callback([&] {
    ++call_count;
    if (kept == nullptr) return false;
    must(engine_->free(std::exchange(kept, nullptr)));
    return true;
  });
  free(allocate(100 * kMiB));
  EXPECT_EQ(call_count, 1);
  EXPECT_EQ(stats().alloc_retries, 0);
  EXPECT_TRUE(allocation_error(300 * kMiB).is_out_of_memory());
  EXPECT_EQ(call_count, 2);
}

}  // namespace
}  // namespace ashlar::paged
