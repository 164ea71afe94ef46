// SPDX-License-Identifier: Apache-2.0
//
// The table of shared imports: sharing, and creations that fail or throw.
#include "share/shared_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>

namespace ashlar {
namespace {

using Table = SharedTable<int>;

Result<Table::Shared> create_one() { return std::make_shared<int>(1); }

TEST(SharedTableTest, SharesLiveValues) {
  Table table;
  const Table::Shared first = table.find_or_create("key", create_one).value();
  EXPECT_EQ(table.find_or_create("key", create_one).value(), first);
  EXPECT_NE(table.find_or_create("other", create_one).value(), first);
  EXPECT_EQ(table.values(), std::vector<Table::Shared>{first});
}

TEST(SharedTableTest, CreatesValueAgainAfterFailure) {
  Table table;
  const auto fail = [] { return Result<Table::Shared>(Status::invalid_argument("no")); };
  EXPECT_FALSE(table.find_or_create("key", fail).ok());
  EXPECT_TRUE(table.find_or_create("key", create_one).ok());
}

// Later callers would otherwise wait for a creation that has ended.
TEST(SharedTableTest, CreatesValueAgainAfterException) {
  Table table;
  const auto run_out_of_memory = []() -> Result<Table::Shared> { throw std::bad_alloc(); };
  EXPECT_THROW((void)table.find_or_create("key", run_out_of_memory), std::bad_alloc);
  EXPECT_TRUE(table.find_or_create("key", create_one).ok());
}

}  // namespace
}  // namespace ashlar
