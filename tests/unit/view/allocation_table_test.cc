// SPDX-License-Identifier: Apache-2.0
//
// Compares the allocation table with naive sorting and filtering.
#include "view/allocation_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/timeline.h"
#include "unit/analysis/trace_builder.h"
#include "unit/view/columns_reader.h"
#include "unit/view/random_run.h"

namespace ashlar::view {
namespace {

class AllocationTableTest : public ::testing::Test {
 protected:
  std::vector<uint32_t> ids(const TableQuery& query) const {
    return ColumnsReader(table_.rows(query)).column<uint32_t>("id");
  }
  const Allocation& allocation(uint32_t id) const { return document_.allocations().all[id]; }

  Document document_ = document_of(random_snapshot({.seed = 5, .entry_count = 1500}));
  AllocationTable table_{document_};
};

TEST_F(AllocationTableTest, ReturnsAllRowsInTheRequestedOrder) {
  const auto count = static_cast<uint32_t>(document_.allocations().all.size());
  const std::vector<uint32_t> up = ids({.sort = SortKey::kBytes, .count = kMaxTableRows});
  ASSERT_EQ(up.size(), count);
  EXPECT_TRUE(std::is_sorted(up.begin(), up.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(allocation(a).bytes, a) < std::pair(allocation(b).bytes, b);
  }));
  std::vector<uint32_t> down =
      ids({.sort = SortKey::kBytes, .descends = true, .count = kMaxTableRows});
  std::reverse(down.begin(), down.end());
  EXPECT_EQ(down, up);
  const std::vector<uint32_t> part = ids({.sort = SortKey::kBytes, .from = 10, .count = 5});
  EXPECT_EQ(part, std::vector<uint32_t>(up.begin() + 10, up.begin() + 15));
  EXPECT_TRUE(ids({.sort = SortKey::kBytes, .from = count, .count = 5}).empty());
}

TEST_F(AllocationTableTest, SortsExtremesToTheEnds) {
  const std::vector<uint32_t> made = ids({.sort = SortKey::kMade, .count = 1});
  EXPECT_TRUE(allocation(made[0]).predates_trace());
  const std::vector<uint32_t> freed = ids({.sort = SortKey::kFreed, .descends = true, .count = 1});
  EXPECT_EQ(allocation(freed[0]).completed_entry, Allocation::kNoEntry);
  const std::vector<uint32_t> age = ids({.sort = SortKey::kAge, .descends = true, .count = 1});
  EXPECT_TRUE(allocation(age[0]).predates_trace());
  EXPECT_EQ(allocation(age[0]).completed_entry, Allocation::kNoEntry);
}

TEST_F(AllocationTableTest, FiltersByMoment) {
  std::vector<uint32_t> found = ids({.sort = SortKey::kMade, .count = 9999, .moment = 700});
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, present_at(document_.allocations(), 700));
}

TEST_F(AllocationTableTest, SearchesFramesIgnoringCase) {
  const TableQuery query{.sort = SortKey::kMade, .count = 9999, .search = "lOSS"};
  const ColumnsReader response(table_.rows(query));
  const auto found = response.column<uint32_t>("id");
  EXPECT_EQ(response.column<double>("total"), (std::vector{static_cast<double>(found.size())}));
  size_t wanted = 0;
  for (const Allocation& each : document_.allocations().all) wanted += each.stack == StackId(2);
  ASSERT_GT(wanted, 0U);
  EXPECT_EQ(found.size(), wanted);
  for (const uint32_t id : found) EXPECT_EQ(allocation(id).stack, StackId(2));
  EXPECT_TRUE(ids({.count = 10, .search = "nowhere"}).empty());
  EXPECT_FALSE(ids({.count = 10, .search = "b.py"}).empty()) << "searches file names";
  EXPECT_FALSE(ids({.count = 10, .search = "outer:b.py:2"}).empty()) << "searches line numbers";
  EXPECT_TRUE(ids({.count = 10, .search = "outer:b.py:3"}).empty());
}

// The page shows lifetimes as durations, so sorting by age compares times, not entries.
TEST(AllocationTableAgeTest, UsesTimesIfTheTraceHasThem) {
  TraceBuilder trace;
  trace.alloc(1 << 20, 512).free(1 << 20, 512);                                         // 0 to 2
  trace.alloc(2 << 20, 512).alloc(3 << 20, 512).free(3 << 20, 512).free(2 << 20, 512);  // 3 to 8
  std::vector<TraceEntry>& entries = trace.snapshot().device_traces[0];
  for (size_t i = 1; i < entries.size(); ++i) entries[i].time_us += 1'000;
  const TableQuery longest{.sort = SortKey::kAge, .descends = true, .count = 1};
  const auto first_of = [&](const Snapshot& snapshot) {
    const Document document = document_of(snapshot);
    return ColumnsReader(AllocationTable(document).rows(longest)).column<uint32_t>("id").at(0);
  };
  EXPECT_EQ(first_of(trace.snapshot()), 0U) << "few entries, but the longest time";
  for (TraceEntry& entry : entries) entry.has_time = false;
  EXPECT_EQ(first_of(trace.snapshot()), 1U) << "by entries without times";
}

TEST_F(AllocationTableTest, ReturnsASingleRow) {
  const ColumnsReader row(table_.row(20));
  const Allocation& each = allocation(20);
  EXPECT_EQ(row.column<uint32_t>("id"), (std::vector<uint32_t>{20}));
  EXPECT_EQ(row.column<double>("bytes"), (std::vector{static_cast<double>(each.bytes)}));
  EXPECT_EQ(row.column<uint32_t>("made"), (std::vector{each.alloc_entry}));
  EXPECT_EQ(row.column<uint32_t>("freed"), (std::vector{each.completed_entry}));
  EXPECT_EQ(row.column<uint64_t>("address"), (std::vector{each.address.value()}));
  EXPECT_EQ(row.column<double>("made_us"), (std::vector{document_.time_us(each.alloc_entry)}));
  EXPECT_EQ(row.column<uint32_t>("stack"), (std::vector{document_.stack_of(each)}));
}

}  // namespace
}  // namespace ashlar::view
