// SPDX-License-Identifier: Apache-2.0
//
// Tests finding, routing and destroying pools.
#include "engine/paged/pool_table.h"

#include "unit/engine/paged/components_fixture.h"

namespace ashlar::paged {
namespace {

class PoolTableTest : public ComponentsFixture {
 protected:
  static constexpr PoolId kPool{0, 1};
};

TEST_F(PoolTableTest, RoutesStreamsToPools) {
  EngineLock lock(components_->mutex);
  PoolTable& pools = components_->pools;
  must(pools.begin_routing(kPool, [](StreamId stream) { return stream == StreamId(7); }));
  EXPECT_TRUE(pools.has_routes());
  EXPECT_EQ(pools.pool_for(StreamId(7)).id, kPool);
  EXPECT_EQ(&pools.pool_for(StreamId(8)), &pools.default_pool());
  EXPECT_TRUE(pools.end_routing(kPool).ok());
  EXPECT_FALSE(pools.has_routes());
}

TEST_F(PoolTableTest, ErasesOnlyUnusedFreeablePools) {
  EngineLock lock(components_->mutex);
  PoolTable& pools = components_->pools;
  must(pools.create(kPool, {}));
  PagedPool& pool = *pools.find(kPool);
  EXPECT_FALSE(pools.erase_if_unused(kPool)) << "it is retained";
  must(pools.routes().release(kPool));
  pool.in_flight_count = 1;
  EXPECT_FALSE(pools.erase_if_unused(kPool)) << "an allocation is in flight";
  pool.in_flight_count = 0;
  EXPECT_EQ(pools.trimmable_pools(), (std::vector<PoolId>{kPool, {}}));
  EXPECT_TRUE(pools.erase_if_unused(kPool));
  EXPECT_EQ(pools.find(kPool), nullptr);
  EXPECT_FALSE(pools.erase_if_unused({})) << "the default pool stays";
}

TEST_F(PoolTableTest, FindsPoolsByTag) {
  EngineLock lock(components_->mutex);
  must(components_->pools.create(kPool, {.tag = "weights"}));
  PagedPool& pool = *components_->pools.find(kPool);
  const Result<std::vector<PagedPool*>> found = components_->pools.find_tagged("weights");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, std::vector<PagedPool*>{&pool});
  expect_kind(components_->pools.find_tagged("other").status(), StatusKind::kInvalidArgument);
  expect_kind(components_->pools.find_tagged("").status(), StatusKind::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar::paged
