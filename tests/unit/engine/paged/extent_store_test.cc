// SPDX-License-Identifier: Apache-2.0
//
// Tests of creating, dropping and releasing physical memory within its limit.
#include "engine/paged/extent_store.h"

#include "unit/engine/paged/components_fixture.h"

namespace ashlar::paged {
namespace {

class ExtentStoreTest : public ComponentsFixture {};

TEST_F(ExtentStoreTest, HeldBytesAreTheDevicesUsedBytes) {
  EngineLock lock(components_->mutex);
  const std::vector<Extent*> extents = create({4 * kMiB, 8 * kMiB});
  PagedPool& pool = components_->pools.default_pool();
  EXPECT_EQ(components_->extents.held_bytes(), 12 * kMiB);
  EXPECT_EQ(used_bytes(), 12 * kMiB);
  EXPECT_EQ(components_->peaks.reserved_bytes(), static_cast<int64_t>(12 * kMiB));
  EXPECT_TRUE(components_->extents.release(pool, extents[0]));
  EXPECT_EQ(pool.extents.size(), 1U);
  EXPECT_EQ(pool.extents[0]->index, 0U) << "the last one takes its place";
  EXPECT_TRUE(components_->extents.release(pool, pool.extents[0].get()));
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(ExtentStoreTest, CreatesAllExtentsOrNone) {
  EngineLock lock(components_->mutex);
  machine_->inject({.call = DeviceCall::kCreate, .nth = 3});
  std::vector<Extent*> created;
  EXPECT_FALSE(
      components_->extents.create(request(kMiB), {2 * kMiB, 2 * kMiB, 2 * kMiB}, created).ok());
  EXPECT_TRUE(created.empty());
  EXPECT_EQ(components_->extents.held_bytes(), 0U);
  EXPECT_EQ(used_bytes(), 0U);
}

TEST_F(ExtentStoreTest, KeepsAnExtentThatTheDeviceDoesNotRelease) {
  EngineLock lock(components_->mutex);
  Extent* extent = create({4 * kMiB})[0];
  PagedPool& pool = components_->pools.default_pool();
  machine_->inject({.call = DeviceCall::kRelease});
  EXPECT_FALSE(components_->extents.release(pool, extent));
  EXPECT_FALSE(components_->error.take().ok()) << "the error is deferred";
  EXPECT_EQ(components_->extents.held_bytes(), 4 * kMiB);
  EXPECT_TRUE(components_->extents.release(pool, extent));
}

TEST_F(ExtentStoreTest, DropsAndRecreatesMemory) {
  EngineLock lock(components_->mutex);
  Extent* extent = create({4 * kMiB})[0];
  must(components_->extents.drop(*extent));
  must(components_->extents.drop(*extent));
  EXPECT_EQ(used_bytes(), 0U);
  components_->extents.set_memory_fraction(1.0 / 1024);
  expect_kind(components_->extents.recreate(*extent), StatusKind::kOutOfMemory);
  components_->extents.set_memory_fraction(1);
  must(components_->extents.recreate(*extent));
  EXPECT_EQ(used_bytes(), 4 * kMiB);
  EXPECT_TRUE(components_->extents.release(components_->pools.default_pool(), extent));
}

TEST_F(ExtentStoreTest, LimitCoversMemoryThatIsBeingObtained) {
  EngineLock lock(components_->mutex);
  components_->extents.set_memory_fraction(0.5);
  EXPECT_FALSE(components_->extents.is_above_limit(512 * kMiB));
  components_->extents.begin_growth(kMiB);
  EXPECT_TRUE(components_->extents.is_above_limit(512 * kMiB));
  SlowPathRequest slow = request(512 * kMiB);
  expect_kind(components_->extents.check_limit(slow, 512 * kMiB), StatusKind::kOutOfMemory);
  EXPECT_EQ(slow.device_bytes, 512 * kMiB);
  components_->extents.end_growth(kMiB);
  EXPECT_FALSE(components_->extents.is_above_limit(512 * kMiB));
}

}  // namespace
}  // namespace ashlar::paged
