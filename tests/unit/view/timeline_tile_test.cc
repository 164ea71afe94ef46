// SPDX-License-Identifier: Apache-2.0
//
// Compares tiles of random runs with a linear scan, column by column.
#include "view/timeline_tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analysis/timeline.h"
#include "unit/view/columns_reader.h"
#include "unit/view/random_run.h"

namespace ashlar::view {
namespace {

// Returns the allocations that are live after an entry, oldest first.
std::vector<uint32_t> live_at(const Document& document, uint32_t entry) {
  std::vector<uint32_t> ids = present_at(document.allocations(), entry);
  std::stable_sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) {
    const auto made = [&](uint32_t id) {
      const Allocation& each = document.allocations().all[id];
      return each.predates_trace() ? 0 : each.alloc_entry + uint64_t{1};
    };
    return made(a) < made(b);
  });
  return ids;
}

uint64_t bytes_of(const Document& document, const std::vector<uint32_t>& ids) {
  uint64_t sum = 0;
  for (const uint32_t id : ids) sum += document.allocations().all[id].bytes;
  return sum;
}

// Returns the allocations in each column of the tile, from bottom to top.
std::vector<std::vector<uint32_t>> stacks_in(const ColumnsReader& tile) {
  const auto ids = tile.column<uint32_t>("id");
  const auto columns = tile.column<uint16_t>("change_column");
  const auto rows = tile.column<uint32_t>("change_row");
  const auto is_added = tile.column<uint8_t>("change_is_added");
  std::vector<uint32_t> now = tile.column<uint32_t>("first");
  std::vector<std::vector<uint32_t>> found;
  size_t next = 0;
  for (size_t column = 0; column < tile.column<uint32_t>("entry").size(); ++column) {
    bool has_added = false;
    for (; next < rows.size() && columns[next] == column; ++next) {
      if (is_added[next] == 1) {
        now.push_back(rows[next]);
        has_added = true;
      } else {
        EXPECT_FALSE(has_added) << "removals precede additions";
        EXPECT_EQ(std::erase(now, rows[next]), 1U) << "removed but was not live";
      }
    }
    std::vector<uint32_t> stack;
    for (const uint32_t row : now) stack.push_back(ids[row]);
    found.push_back(stack);
  }
  EXPECT_EQ(next, rows.size());
  return found;
}

// Returns the bytes of the allocations by stack. The key kNoIndex sums the stacks that have no row
// in `small_stack`.
std::map<uint32_t, double> by_small_stack(const Document& document, const ColumnsReader& tile,
                                          const std::vector<uint32_t>& ids) {
  const auto known = tile.column<uint32_t>("small_stack");
  std::map<uint32_t, double> sums;
  for (const uint32_t id : ids) {
    const Allocation& each = document.allocations().all[id];
    const uint32_t stack = document.stack_of(each);
    const bool has_row = std::find(known.begin(), known.end(), stack) != known.end();
    sums[has_row ? stack : kNoIndex] += static_cast<double>(each.bytes);
  }
  return sums;
}

// Returns the sums that are not 0 in a column of the tile, keyed by group. `group` and `bytes` are
// names of response columns.
template <typename Group>
std::map<uint32_t, double> small_rows(const ColumnsReader& tile, const char* group,
                                      const char* bytes, size_t column) {
  const auto groups = tile.column<Group>(group);
  const auto sums = tile.column<double>(bytes);
  const size_t columns = tile.column<uint32_t>("entry").size();
  EXPECT_EQ(sums.size(), groups.size() * columns);
  std::map<uint32_t, double> rows;
  for (size_t row = 0; row < groups.size(); ++row) {
    const double sum = sums[row * columns + column];
    if (sum != 0) rows[groups[row]] = sum;
  }
  return rows;
}

void expect_small_groups_match(const Document& document, const ColumnsReader& tile, size_t column,
                               const std::vector<uint32_t>& ids) {
  std::map<uint32_t, double> by_stack = by_small_stack(document, tile, ids);
  std::erase_if(by_stack, [](const auto& each) { return each.second == 0; });
  std::map<uint32_t, double> by_category;
  for (const uint32_t id : ids) {
    by_category[document.category_of(id)] +=
        static_cast<double>(document.allocations().all[id].bytes);
  }
  std::erase_if(by_category, [](const auto& each) { return each.second == 0; });
  ASSERT_EQ(small_rows<uint32_t>(tile, "small_stack", "stack_bytes", column), by_stack);
  ASSERT_EQ(small_rows<uint8_t>(tile, "small_category", "category_bytes", column), by_category);
}

void expect_tile_matches_scan(const Document& document, TileId place, uint32_t detail) {
  SCOPED_TRACE(testing::Message() << "level " << place.level << ", index " << place.index
                                  << ", detail " << detail);
  const ColumnsReader tile(tile_by_allocation(document, place, detail));
  const auto entries = tile.column<uint32_t>("entry");
  const auto requested = tile.column<double>("requested");
  const auto small = tile.column<double>("small");
  const auto stacks = stacks_in(tile);
  const uint64_t least = min_shown_bytes(document, detail);
  ASSERT_EQ(stacks.size(), entries.size());
  for (size_t column = 0; column < entries.size(); ++column) {
    std::vector<uint32_t> live = live_at(document, entries[column]);
    ASSERT_EQ(requested[column], static_cast<double>(bytes_of(document, live)));
    std::vector<uint32_t> hidden = live;
    const auto is_small = [&](uint32_t id) { return document.allocations().all[id].bytes < least; };
    std::erase_if(hidden, [&](uint32_t id) { return !is_small(id); });
    std::erase_if(live, is_small);
    ASSERT_EQ(stacks[column], live) << "column " << column;
    ASSERT_EQ(small[column] + static_cast<double>(bytes_of(document, live)), requested[column]);
    if (column % 16 == 0) expect_small_groups_match(document, tile, column, hidden);
  }
}

TEST(TileTest, ShowsLiveAllocationsInEveryColumn) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto entries = static_cast<uint32_t>(300 + 900 * seed);
    const Document document = document_of(random_snapshot({.seed = seed, .entry_count = entries}));
    const uint32_t levels = level_count(document.entry_count());
    for (uint32_t level = 0; level < levels; ++level) {
      for (uint32_t index = 0; index < tile_count(document.entry_count(), level); ++index) {
        expect_tile_matches_scan(document, {level, index}, level % (kMaxDetail + 1));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(TileTest, ColumnRepresentsItsHighestMoment) {
  const Document document = document_of(random_snapshot({.seed = 9, .entry_count = 3000}));
  const Timeline timeline =
      make_timeline(document.recording().snapshot(), document.device(), document.allocations());
  const uint32_t width = 1U << (level_count(document.entry_count()) - 1);
  const ColumnsReader tile(tile_by_allocation(document, {}, 0));
  const auto entries = tile.column<uint32_t>("entry");
  const auto low = tile.column<double>("requested_low");
  const auto reserved = tile.column<double>("reserved");
  const auto most_reserved = tile.column<double>("reserved_high");
  size_t differing = 0;
  const auto times = tile.column<double>("time_us");
  for (uint32_t column = 0; column < entries.size(); ++column) {
    uint32_t highest = column * width;
    uint64_t lowest = UINT64_MAX;
    uint64_t most = 0;
    for (uint32_t i = column * width; i < std::min((column + 1) * width, document.entry_count());
         ++i) {
      const uint64_t here = timeline.points[i].requested_bytes();
      if (here > timeline.points[highest].requested_bytes()) highest = i;
      lowest = std::min(lowest, here);
      most = std::max<uint64_t>(most, timeline.points[i].reserved_bytes);
    }
    ASSERT_EQ(entries[column], highest);
    ASSERT_EQ(low[column], static_cast<double>(lowest));
    ASSERT_EQ(reserved[column], static_cast<double>(timeline.points[highest].reserved_bytes));
    ASSERT_EQ(most_reserved[column], static_cast<double>(most));
    differing += most_reserved[column] != reserved[column];
    ASSERT_EQ(times[column], static_cast<double>(document.trace()[highest].time_us));
  }
  EXPECT_GT(differing, 0U) << "the two peaks never differed";
  EXPECT_EQ(document.peak(), timeline.requested_peak.entry);
  EXPECT_EQ(document.reserved_at(document.reserved_peak()), timeline.reserved_peak.bytes);
}

TEST(TileTest, GroupsAddUpToRequestedBytes) {
  const Document document = document_of(random_snapshot({.seed = 4, .entry_count = 2500}));
  for (const Grouping grouping : {Grouping::kStack, Grouping::kStream, Grouping::kPool}) {
    const ColumnsReader tile(tile_by_group(document, {.level = 1, .index = 1}, grouping));
    const auto entries = tile.column<uint32_t>("entry");
    const auto groups = tile.column<uint32_t>("group");
    const auto bytes = tile.column<double>("bytes");
    ASSERT_EQ(bytes.size(), groups.size() * entries.size());
    for (size_t column = 0; column < entries.size(); ++column) {
      std::map<uint32_t, double> wanted;
      for (const uint32_t id : live_at(document, entries[column])) {
        const Allocation& each = document.allocations().all[id];
        const uint32_t group = grouping == Grouping::kStack    ? document.stack_of(each)
                               : grouping == Grouping::kStream ? document.stream_of(each.stream)
                                                               : document.pool_of(each.pool);
        wanted[group] += static_cast<double>(each.bytes);
      }
      for (size_t row = 0; row < groups.size(); ++row) {
        ASSERT_EQ(bytes[row * entries.size() + column], wanted[groups[row]]) << groups[row];
        wanted.erase(groups[row]);
      }
      for (const auto& [group, sum] : wanted) ASSERT_EQ(sum, 0) << group;
    }
  }
}

// Returns a snapshot with one allocation from each of many stacks. Sizes increase, and all
// allocations are live at the end.
Snapshot many_stacks(uint32_t count) {
  Snapshot snapshot;
  snapshot.device_traces.resize(1);
  for (uint32_t i = 1; i <= count; ++i) {
    snapshot.tables.frames.push_back({"f" + std::to_string(i), "a.py", 1});
    snapshot.tables.stacks.push_back({{i}, {}});
    TraceEntry entry;
    entry.address = DeviceAddress(uint64_t{i} << 30);
    entry.bytes = 1024 * i;
    entry.stack = StackId(i);
    snapshot.device_traces[0].push_back(entry);
  }
  return snapshot;
}

TEST(TileTest, ShowsOnlyTheLargestGroups) {
  const Document document = document_of(many_stacks(60));
  const ColumnsReader tile(tile_by_group(document, {}, Grouping::kStack));
  const auto groups = tile.column<uint32_t>("group");
  ASSERT_EQ(groups.size(), kMaxGroups + 1);
  EXPECT_EQ(groups.front(), document.stack_of(document.allocations().all.back()));
  EXPECT_EQ(groups.back(), kNoIndex);
  const auto bytes = tile.column<double>("bytes");
  EXPECT_EQ(bytes.back(), 1024.0 * (12 * 13 / 2)) << "the twelve smallest, at the end";
}

TEST(TileTest, LimitsTheNumberOfAllocations) {
  const auto count = static_cast<uint32_t>(kMaxTileAllocations) + 10'000;
  Snapshot snapshot;
  snapshot.device_traces.resize(1);
  for (uint32_t i = 1; i <= count; ++i) {
    TraceEntry entry;
    entry.address = DeviceAddress(uint64_t{i} << 20);
    entry.bytes = 1'000'000 + i;
    snapshot.device_traces[0].push_back(entry);
  }
  const Document document = document_of(std::move(snapshot));
  const ColumnsReader tile(tile_by_allocation(document, {}, kMaxDetail));
  const auto ids = tile.column<uint32_t>("id");
  EXPECT_EQ(ids.size(), kMaxTileAllocations);
  EXPECT_EQ(ids.front(), 10'000U) << "the smallest, which came first, are not shown";
  const auto small = tile.column<double>("small");
  EXPECT_EQ(small.back(), 10'000.0 * 1'000'000 + 10'000.0 * 10'001 / 2);
}

TEST(TileTest, LevelsRangeFromOneTileToOneEntryPerColumn) {
  EXPECT_EQ(level_count(1), 1U);
  EXPECT_EQ(level_count(512), 1U);
  EXPECT_EQ(level_count(513), 2U);
  EXPECT_EQ(level_count(3'000'000), 14U);
  EXPECT_EQ(tile_count(3'000'000, 0), 1U);
  EXPECT_EQ(tile_count(3'000'000, 13), 5860U);
}

}  // namespace
}  // namespace ashlar::view
