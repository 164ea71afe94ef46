// SPDX-License-Identifier: Apache-2.0
//
// Tests of use counts and routing.
#include "base/routes.h"

#include <gtest/gtest.h>

#include <memory>

namespace ashlar {
namespace {

constexpr PoolId kPool{0, 1};
constexpr PoolId kOther{0, 2};
constexpr StreamId kStream{7};

RouteFilter everything() {
  return [](StreamId) { return true; };
}

bool is_misuse(const Status& status) { return status.is(StatusKind::kInvalidArgument); }

TEST(RoutesTest, RoutesToTheLatestAcceptingPool) {
  Routes routes;
  EXPECT_TRUE(routes.pool_id_for(kStream).is_default());
  EXPECT_TRUE(routes.begin(kPool, everything()).ok());
  EXPECT_TRUE(routes.begin(kOther, [](StreamId stream) { return stream == kStream; }).ok());
  EXPECT_EQ(routes.pool_id_for(kStream), kOther);
  EXPECT_EQ(routes.pool_id_for(kDefaultStream), kPool);
  EXPECT_TRUE(routes.end(kPool).ok());
  EXPECT_TRUE(routes.pool_id_for(kDefaultStream).is_default());
  EXPECT_TRUE(routes.begin(kPool, everything()).ok());
  EXPECT_EQ(routes.pool_id_for(kStream), kPool) << "routed again, so it is the latest";
}

TEST(RoutesTest, RoutingRetainsThePoolAfterRoutingEnds) {
  Routes routes;
  EXPECT_TRUE(routes.create(kPool).ok());
  EXPECT_TRUE(routes.begin(kPool, everything()).ok());
  EXPECT_EQ(*routes.use_count(kPool), 2);
  EXPECT_TRUE(routes.end(kPool).ok());
  EXPECT_EQ(*routes.use_count(kPool), 2);
}

TEST(RoutesTest, PoolIsFreeableWithoutUsersAndRoutes) {
  Routes routes;
  EXPECT_FALSE(routes.is_freeable(kPool)) << "unknown pool";
  EXPECT_TRUE(routes.begin(kPool, everything()).ok());
  EXPECT_TRUE(routes.release(kPool).ok());
  EXPECT_FALSE(routes.is_freeable(kPool)) << "routed to";
  EXPECT_TRUE(routes.retain(kPool).ok()) << "so it can be retained again";
  EXPECT_TRUE(routes.end(kPool).ok());
  EXPECT_FALSE(routes.is_freeable(kPool)) << "held";
  EXPECT_TRUE(routes.release(kPool).ok());
  EXPECT_TRUE(routes.is_freeable(kPool));
  EXPECT_TRUE(is_misuse(routes.retain(kPool)));
  EXPECT_TRUE(is_misuse(routes.begin(kPool, everything())));
  routes.erase(kPool);
  EXPECT_FALSE(routes.has(kPool));
  EXPECT_TRUE(routes.create(kPool).ok());
}

TEST(RoutesTest, RejectsInvalidCallsWithoutChange) {
  Routes routes;
  EXPECT_TRUE(is_misuse(routes.create({})));
  EXPECT_TRUE(is_misuse(routes.begin({}, everything())));
  EXPECT_TRUE(is_misuse(routes.begin(kPool, nullptr)));
  EXPECT_TRUE(is_misuse(routes.end(kPool).status()));
  EXPECT_EQ(routes.retain(kPool).message(), "there is no pool {0, 1}");
  EXPECT_TRUE(is_misuse(routes.use_count(kPool).status()));
  EXPECT_FALSE(routes.has(kPool));

  EXPECT_TRUE(routes.create(kPool).ok());
  EXPECT_TRUE(is_misuse(routes.create(kPool)));
  EXPECT_EQ(*routes.use_count(kPool), 1);
  EXPECT_TRUE(routes.begin(kPool, everything()).ok());
  EXPECT_TRUE(is_misuse(routes.begin(kPool, everything())));
  EXPECT_EQ(*routes.use_count(kPool), 2);
  EXPECT_TRUE(routes.release(kPool).ok());
  EXPECT_TRUE(routes.release(kPool).ok());
  EXPECT_EQ(routes.release(kPool).message(), "pool {0, 1} was released more often than retained");
}

// Destroying a filter may run user code, so the caller must be able to destroy the filter after it
// has released its lock.
TEST(RoutesTest, ReturnsTheFilterToTheCaller) {
  Routes routes;
  const auto seen = std::make_shared<int>();
  const auto filter = [&] { return RouteFilter([seen](StreamId) { return seen != nullptr; }); };
  EXPECT_TRUE(routes.begin(kPool, filter()).ok());
  RouteFilter refused = filter();
  EXPECT_TRUE(is_misuse(routes.begin(kPool, std::move(refused))));
  EXPECT_TRUE(refused);  // NOLINT(bugprone-use-after-move): a refused filter is not moved from
  EXPECT_EQ(seen.use_count(), 3);
  const Result<RouteFilter> ended = routes.end(kPool);
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(seen.use_count(), 3) << "handed out, not dropped";
}

}  // namespace
}  // namespace ashlar
