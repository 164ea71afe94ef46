// SPDX-License-Identifier: Apache-2.0
//
// Finds the allocations that are live at one of a tile's moments, with their first and last
// columns: first the allocations that are live at the first moment, then, in one pass, the
// allocations made within the tile.
#include "view/timeline_tile.h"

#include <algorithm>
#include <limits>

#include "view/allocation_columns.h"
#include "view/columns.h"
#include "view/small_groups.h"

namespace ashlar::view {
namespace {

struct Column {
  EntryRange range{};
  Extremes extremes{};
};

std::vector<Column> columns_of(const Document& document, TileId tile) {
  const uint32_t entry_count = document.entry_count();
  const uint64_t width = uint64_t{1} << (level_count(entry_count) - 1 - tile.level);
  std::vector<Column> columns;
  for (uint64_t i = 0; i < kTileColumns; ++i) {
    const uint64_t begin = (tile.index * uint64_t{kTileColumns} + i) * width;
    if (begin >= entry_count) break;
    const EntryRange range{static_cast<uint32_t>(begin),
                           static_cast<uint32_t>(std::min<uint64_t>(begin + width, entry_count))};
    columns.push_back({range, document.requested().extremes(range)});
  }
  return columns;
}

std::vector<uint32_t> moments_of(const std::vector<Column>& columns) {
  std::vector<uint32_t> moments;
  for (const Column& column : columns) moments.push_back(column.extremes.highest_at);
  return moments;
}

// Calls visit(ShownAllocation) for all allocations that are live at one of the moments, oldest
// first.
template <typename Visit>
void for_each_shown(const Document& document, const std::vector<uint32_t>& moments, Visit visit) {
  const std::vector<EntryInterval>& intervals = document.intervals().all();
  const auto column_after = [&](uint32_t end, uint32_t from) {
    if (end > moments.back()) return static_cast<uint32_t>(moments.size());
    const auto found = std::lower_bound(moments.begin() + from, moments.end(), end);
    return static_cast<uint32_t>(found - moments.begin());
  };
  for (const uint32_t rank : document.intervals().at(moments.front())) {
    visit(ShownAllocation{rank, 0, column_after(intervals[rank].end, 0)});
  }
  uint32_t column = 0;
  for (uint32_t rank = document.intervals().first_after(moments.front());
       rank < intervals.size() && intervals[rank].begin <= moments.back(); ++rank) {
    while (moments[column] < intervals[rank].begin) ++column;
    if (intervals[rank].end <= moments[column]) continue;
    visit(ShownAllocation{rank, column, column_after(intervals[rank].end, column)});
  }
}

// The allocations of a tile, oldest first in both lists.
struct TileAllocations {
  std::vector<ShownAllocation> shown{};  // individually
  std::vector<ShownAllocation> small{};  // as sums
};

bool is_older(const ShownAllocation& a, const ShownAllocation& b) { return a.rank < b.rank; }

TileAllocations find_allocations(const Document& document, const std::vector<uint32_t>& moments,
                                 uint64_t min_bytes) {
  const std::vector<uint64_t>& bytes = document.bytes();
  TileAllocations found;
  for_each_shown(document, moments, [&](const ShownAllocation& each) {
    (bytes[each.rank] >= min_bytes ? found.shown : found.small).push_back(each);
  });
  if (found.shown.size() <= kMaxTileAllocations) return found;
  const auto is_greater = [&](const ShownAllocation& a, const ShownAllocation& b) {
    return std::pair(bytes[a.rank], b.rank) > std::pair(bytes[b.rank], a.rank);
  };
  const auto end = found.shown.begin() + kMaxTileAllocations;
  std::nth_element(found.shown.begin(), end, found.shown.end(), is_greater);
  found.small.insert(found.small.end(), end, found.shown.end());
  found.shown.erase(end, found.shown.end());
  std::sort(found.shown.begin(), found.shown.end(), is_older);
  std::sort(found.small.begin(), found.small.end(), is_older);
  return found;
}

void add_sums(const Document& document, const std::vector<Column>& columns, Columns& response) {
  const std::vector<uint32_t> moments = moments_of(columns);
  response.add("entry", moments);
  response.add("time_us", moments, [&](uint32_t at) { return document.time_us(at); });
  response.add("requested", moments,
               [&](uint32_t at) { return static_cast<double>(document.requested().at(at)); });
  response.add("allocated", moments,
               [&](uint32_t at) { return static_cast<double>(document.allocated_at(at)); });
  response.add("reserved", moments,
               [&](uint32_t at) { return static_cast<double>(document.reserved_at(at)); });
  response.add("reserved_high", columns, [&](const Column& each) {
    return static_cast<double>(document.max_reserved(each.range));
  });
  response.add("requested_low", columns,
               [](const Column& each) { return static_cast<double>(each.extremes.lowest); });
}

// Returns, for each column, the bytes of the allocations that are not shown individually.
std::vector<double> hidden_bytes(const Document& document, const std::vector<uint32_t>& moments,
                                 const std::vector<ShownAllocation>& shown) {
  std::vector<uint64_t> changes(moments.size() + 1);
  for (const ShownAllocation& each : shown) {
    changes[each.begin] += document.bytes()[each.rank];
    changes[each.end] -= document.bytes()[each.rank];
  }
  std::vector<double> hidden;
  uint64_t now = 0;
  for (size_t column = 0; column < moments.size(); ++column) {
    now += changes[column];
    const uint64_t requested = document.requested().at(moments[column]);
    hidden.push_back(static_cast<double>(requested - std::min(now, requested)));
  }
  return hidden;
}

// Adds the allocations shown in the first column, and those that appear and disappear in each later
// column. Allocations are sorted by age, so the allocations that a column adds are in order.
void add_changes(const std::vector<ShownAllocation>& shown, uint32_t column_count,
                 Columns& response) {
  std::vector<uint32_t> first;
  std::vector<uint32_t> leaving;
  for (uint32_t row = 0; row < shown.size(); ++row) {
    if (shown[row].begin == 0) first.push_back(row);
    if (shown[row].end < column_count) leaving.push_back(row);
  }
  std::stable_sort(leaving.begin(), leaving.end(),
                   [&](uint32_t a, uint32_t b) { return shown[a].end < shown[b].end; });
  std::vector<uint16_t> columns;
  std::vector<uint32_t> rows;
  std::vector<uint8_t> is_addition;
  const auto change = [&](uint32_t column, uint32_t row, uint8_t is_added) {
    columns.push_back(static_cast<uint16_t>(column));
    rows.push_back(row);
    is_addition.push_back(is_added);
  };
  auto next = static_cast<uint32_t>(first.size());  // rows of the first column are the oldest
  size_t left = 0;
  for (uint32_t column = 1; column < column_count; ++column) {
    for (; left < leaving.size() && shown[leaving[left]].end == column; ++left) {
      change(column, leaving[left], 0);
    }
    for (; next < shown.size() && shown[next].begin == column; ++next) change(column, next, 1);
  }
  response.add("first", first);
  response.add("change_column", columns);
  response.add("change_row", rows);
  response.add("change_is_added", is_addition);
}

}  // namespace

uint32_t level_count(uint32_t entry_count) {
  uint32_t levels = 1;
  while ((uint64_t{kTileColumns} << (levels - 1)) < entry_count) ++levels;
  return levels;
}

uint32_t tile_count(uint32_t entry_count, uint32_t level) {
  const uint64_t entries = uint64_t{kTileColumns} << (level_count(entry_count) - 1 - level);
  return static_cast<uint32_t>((entry_count + entries - 1) / entries);
}

uint64_t min_shown_bytes(const Document& document, uint32_t detail) {
  const uint64_t peak_bytes = document.requested().at(document.peak());
  return std::max<uint64_t>((peak_bytes >> 10) >> (2 * detail), 1);
}

std::vector<uint32_t> tile_moments(const Document& document, TileId tile) {
  return moments_of(columns_of(document, tile));
}

std::string tile_by_allocation(const Document& document, TileId tile, uint32_t detail) {
  const std::vector<Column> columns = columns_of(document, tile);
  const std::vector<uint32_t> moments = moments_of(columns);
  const TileAllocations found =
      find_allocations(document, moments, min_shown_bytes(document, detail));
  const auto column_count = static_cast<uint32_t>(columns.size());
  Columns response;
  add_sums(document, columns, response);
  response.add("small", hidden_bytes(document, moments, found.shown));
  add_small_groups(document, found.small, column_count, response);
  add_changes(found.shown, column_count, response);
  std::vector<uint32_t> ids;
  for (const ShownAllocation& each : found.shown) ids.push_back(document.ids()[each.rank]);
  add_allocations(document, ids, response);
  return response.take();
}

std::string tile_by_group(const Document& document, TileId tile, Grouping grouping) {
  const std::vector<Column> columns = columns_of(document, tile);
  const std::vector<uint32_t> moments = moments_of(columns);
  const GroupRanking& groups = document.groups(grouping);
  std::vector<uint32_t> rows = groups.shown();
  if (groups.has_others()) rows.push_back(kNoIndex);
  // Collects changes per row, with one extra column for allocations that outlive the tile, then
  // sums them up.
  const size_t stride = columns.size() + 1;
  std::vector<uint64_t> sums((groups.shown().size() + 1) * stride);
  for_each_shown(document, moments, [&](const ShownAllocation& each) {
    uint64_t* row = &sums[groups.row_of()[each.rank] * stride];
    row[each.begin] += document.bytes()[each.rank];
    row[each.end] -= document.bytes()[each.rank];
  });
  std::vector<double> bytes;
  bytes.reserve(rows.size() * columns.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    uint64_t now = 0;
    for (size_t column = 0; column < columns.size(); ++column) {
      now += sums[row * stride + column];
      bytes.push_back(static_cast<double>(now));
    }
  }
  Columns response;
  add_sums(document, columns, response);
  response.add("group", rows);
  response.add("bytes", bytes);
  return response.take();
}

}  // namespace ashlar::view
