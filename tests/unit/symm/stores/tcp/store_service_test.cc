// SPDX-License-Identifier: Apache-2.0
//
// Tests the bounds of the service of a TCP store: memory, lifetimes, receipts, sizes of responses.
#include "symm/stores/tcp/store_service.h"

#include <gtest/gtest.h>

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;

class StoreServiceTest : public ::testing::Test {
 protected:
  Status set(const std::string& key, const std::string& value, int64_t time_to_live_ms = 0) {
    StoreRequest request{.call = StoreCall::kSet, .keys = {key}, .value = value};
    request.time_to_live_ms = time_to_live_ms;
    return service_.perform(request, now_).status;
  }
  StoreResponse get(std::vector<std::string> keys) {
    return service_.perform({.call = StoreCall::kTryGet, .keys = std::move(keys)}, now_);
  }
  Result<int64_t> add(const std::string& key, int64_t amount, Receipt receipt) {
    StoreRequest request{.call = StoreCall::kAdd, .keys = {key}};
    request.amount = amount;
    request.receipt = receipt;
    const StoreResponse response = service_.perform(request, now_);
    if (!response.status.ok()) return response.status;
    return response.number;
  }

  StoreService service_{10'000};
  StoreService::Time now_{std::chrono::hours(1)};
};

TEST_F(StoreServiceTest, RejectsWritesBeyondItsMemory) {
  EXPECT_TRUE(set("one", std::string(4000, 'x')).ok());
  EXPECT_TRUE(set("two", std::string(4000, 'x')).ok());
  EXPECT_TRUE(set("three", std::string(4000, 'x')).is_out_of_memory());
  EXPECT_EQ(get({"three"}).values.front(), std::nullopt);
  EXPECT_TRUE(set("two", std::string(5000, 'y')).ok());  // replaces the value
  EXPECT_EQ(service_.perform({.call = StoreCall::kErase, .keys = {"one"}}, now_).number, 1);
  EXPECT_TRUE(set("three", std::string(4000, 'x')).ok());
}

TEST_F(StoreServiceTest, CountsTheOverheadOfSmallEntries) {
  size_t accepted = 0;
  while (accepted < 1000 && set("key/" + std::to_string(accepted), "").ok()) ++accepted;
  EXPECT_GT(accepted, 50U);
  EXPECT_LT(accepted, 10'000 / EntryTable::kOverheadBytes);
}

TEST_F(StoreServiceTest, ReusesTheMemoryOfExpiredEntries) {
  ASSERT_TRUE(set("short", std::string(8000, 'x'), 100).ok());
  EXPECT_TRUE(set("next", std::string(8000, 'x')).is_out_of_memory());
  now_ += milliseconds(100);
  EXPECT_EQ(get({"short"}).values.front(), std::nullopt);
  EXPECT_TRUE(set("next", std::string(8000, 'x')).ok());
}

TEST_F(StoreServiceTest, RemovesExpiredEntriesAfterManyWrites) {
  EntryTable table;
  ASSERT_TRUE(table.put("short", std::string(1000, 'x'), milliseconds(1), now_).ok());
  now_ += milliseconds(1);
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(table.put("key", "", milliseconds(0), now_).ok());
  EXPECT_LT(table.bytes(), 1000U);
}

TEST_F(StoreServiceTest, AppliesRepeatedAdditionsOnce) {
  EXPECT_EQ(*add("n", 5, {1, 1}), 5);
  EXPECT_EQ(*add("n", 5, {1, 2}), 10);
  EXPECT_EQ(*add("n", 5, {1, 1}), 5);
  EXPECT_EQ(get({"n"}).values.front(), "10");
}

TEST_F(StoreServiceTest, KeepsABoundedNumberOfReceipts) {
  for (uint64_t i = 0; i <= StoreService::kMaxReceipts; ++i) ASSERT_TRUE(add("n", 1, {0, i}).ok());
  const int64_t before = *add("n", 0, {1, 0});
  EXPECT_EQ(*add("n", 1, {0, 0}), before + 1);  // its receipt was dropped
}

TEST_F(StoreServiceTest, SplitsLargeResponses) {
  StoreService service(size_t{1} << 30);
  std::vector<std::string> keys;
  for (int i = 0; i < 5; ++i) {
    keys.push_back("key/" + std::to_string(i));
    StoreRequest request{.call = StoreCall::kSet, .keys = {keys.back()}};
    request.value = std::string(Store::kMaxValueBytes * 2 / 3, 'x');
    ASSERT_TRUE(service.perform(request, now_).status.ok());
  }
  const StoreResponse response = service.perform({.call = StoreCall::kTryGet, .keys = keys}, now_);
  EXPECT_EQ(response.values.size(), 2U);
  EXPECT_LE(serialize(response).size(), kFrameHeaderBytes + kMaxResponseBytes);
}

TEST_F(StoreServiceTest, WritesChangeTheVersion) {
  const uint64_t first = service_.version();
  EXPECT_EQ(get({"a"}).number, static_cast<int64_t>(first));
  EXPECT_EQ(service_.version(), first);
  ASSERT_TRUE(set("a", "1").ok());
  EXPECT_NE(service_.version(), first);
}

TEST_F(StoreServiceTest, RejectsCallsThatTheConnectionHandles) {
  EXPECT_EQ(service_.perform({.call = StoreCall::kWait}, now_).status.kind(),
            StatusKind::kInvalidArgument);
}

}  // namespace
}  // namespace ashlar::symm
