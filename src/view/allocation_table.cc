// SPDX-License-Identifier: Apache-2.0
//
// Filters and sorts allocations, and caches the resulting orders.
#include "view/allocation_table.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "view/allocation_columns.h"
#include "view/columns.h"

namespace ashlar::view {
namespace {

constexpr size_t kMaxOrders = 8;

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool contains_ignoring_case(std::string_view text, std::string_view wanted) {
  const auto same = [](char a, char b) { return to_lower(a) == to_lower(b); };
  return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), same) != text.end();
}

bool have_same_order(const TableQuery& a, const TableQuery& b) {
  const auto key = [](const TableQuery& each) {
    return std::tie(each.sort, each.moment, each.category, each.search);
  };
  return key(a) == key(b);
}

std::string as_columns(const Document& document, const std::vector<uint32_t>& ids, size_t total) {
  Columns response;
  response.add("total", std::vector<double>{static_cast<double>(total)});
  add_allocations(document, ids, response);
  add_allocation_details(document, ids, response);
  return response.take();
}

}  // namespace

std::string AllocationTable::rows(const TableQuery& query) const {
  const std::shared_ptr<const Order> order = order_for(query);
  const size_t total = order->size();
  const size_t begin = std::min<size_t>(query.from, total);
  const size_t end = std::min<size_t>(begin + query.count, total);
  std::vector<uint32_t> ids;
  for (size_t i = begin; i < end; ++i) {
    ids.push_back((*order)[query.descends ? total - 1 - i : i]);
  }
  return as_columns(document_, ids, total);
}

std::string AllocationTable::row(uint32_t id) const { return as_columns(document_, {id}, 1); }

std::shared_ptr<const AllocationTable::Order> AllocationTable::order_for(
    const TableQuery& query) const {
  {
    MutexLock lock(mutex_);
    for (auto known = cache_.begin(); known != cache_.end(); ++known) {
      if (!have_same_order(known->query, query)) continue;
      cache_.splice(cache_.begin(), cache_, known);
      return cache_.front().order;
    }
  }
  auto order = std::make_shared<const Order>(find(query));
  MutexLock lock(mutex_);
  cache_.push_front({query, order});
  if (cache_.size() > kMaxOrders) cache_.pop_back();
  return order;
}

AllocationTable::Order AllocationTable::find(const TableQuery& query) const {
  Order ids;
  if (query.moment) {
    for (const uint32_t rank : document_.intervals().at(*query.moment)) {
      ids.push_back(document_.ids()[rank]);
    }
  } else {
    ids = document_.ids();
  }
  if (!query.search.empty()) {
    const std::vector<bool> wanted = stacks_with(query.search);
    std::erase_if(ids, [&](uint32_t id) {
      return !wanted[document_.stack_of(document_.allocations().all[id])];
    });
  }
  if (query.category) {
    std::erase_if(ids, [&](uint32_t id) { return document_.category_of(id) != *query.category; });
  }
  sort(query.sort, ids);
  return ids;
}

std::vector<bool> AllocationTable::stacks_with(std::string_view search) const {
  const StackIndex& stacks = document_.recording().stacks();
  std::vector<bool> wanted(stacks.size());
  for (uint32_t stack = 0; stack < stacks.size(); ++stack) {
    const std::vector<const Frame*> frames = stacks.frames(stack);
    wanted[stack] = std::any_of(frames.begin(), frames.end(), [&](const Frame* frame) {
      return contains_ignoring_case(text(frame->name, ":", frame->filename, ":", frame->line),
                                    search);
    });
  }
  return wanted;
}

// Returns the lifetime, in microseconds if all entries have times, otherwise in entries. The value
// is higher for allocations that were never freed than for all others. Allocations that predate the
// trace count as if they were made one unit before the trace.
uint64_t AllocationTable::age_of(const Allocation& allocation, bool has_times) const {
  constexpr uint64_t kForever = uint64_t{1} << 63;
  const std::vector<TraceEntry>& trace = document_.trace();
  const auto at = [&](uint32_t entry) {
    return has_times ? static_cast<uint64_t>(trace[entry].time_us) : entry;
  };
  const bool is_freed = allocation.completed_entry < trace.size();
  const uint64_t begin = allocation.predates_trace() ? at(0) : at(allocation.alloc_entry);
  const uint64_t end = at(is_freed ? allocation.completed_entry : document_.entry_count() - 1);
  const uint64_t older = allocation.predates_trace() ? 1 : 0;
  // Timestamps may go backwards; the difference then wraps around, and the age counts as 0.
  const uint64_t lived = end - begin >= kForever ? 0 : std::min(end - begin, kForever - 2);
  return lived + older + (is_freed ? 0 : kForever);
}

// Sorts by the key, then by id. Allocations that predate the trace come before all alloc entries,
// and allocations that were never freed come after all free entries.
void AllocationTable::sort(SortKey key, Order& ids) const {
  const std::vector<TraceEntry>& trace = document_.trace();
  const bool has_times =
      key == SortKey::kAge && std::all_of(trace.begin(), trace.end(),
                                          [](const TraceEntry& entry) { return entry.has_time; });
  const auto value = [&](uint32_t id) -> uint64_t {
    const Allocation& each = document_.allocations().all[id];
    const uint64_t made = each.predates_trace() ? 0 : each.alloc_entry + uint64_t{1};
    const uint64_t freed = each.completed_entry == Allocation::kNoEntry
                               ? document_.entry_count() + uint64_t{1}
                               : each.completed_entry + uint64_t{1};
    switch (key) {
      case SortKey::kBytes: return each.bytes;
      case SortKey::kMade: return made;
      case SortKey::kFreed: return freed;
      case SortKey::kAge: return age_of(each, has_times);
    }
    return 0;
  };
  std::vector<std::pair<uint64_t, uint32_t>> keyed;
  keyed.reserve(ids.size());
  for (const uint32_t id : ids) keyed.emplace_back(value(id), id);
  std::sort(keyed.begin(), keyed.end());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = keyed[i].second;
}

}  // namespace ashlar::view
