// SPDX-License-Identifier: Apache-2.0
//
// Filtered, then sorted, then remembered.
#include "view/table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "view/allocation_columns.h"
#include "view/columns.h"

namespace ashlar::view {
namespace {

constexpr size_t kMostOrders = 8;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool has(std::string_view text, std::string_view wanted) {
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), same) != text.end();
}

std::string as_columns(const Document& document, const std::vector<uint32_t>& ids, size_t total) {
  Columns answer;
  answer.add("total", std::vector<double>{static_cast<double>(total)});
  add_allocations(document, ids, answer);
  add_allocation_details(document, ids, answer);
  return answer.take();
}

}  // namespace

std::string AllocationTable::rows(const TableQuestion& question) const {
  const std::shared_ptr<const Order> order = order_for(question);
  const size_t total = order->size();
  const size_t begin = std::min<size_t>(question.from, total);
  const size_t end = std::min<size_t>(begin + question.count, total);
  std::vector<uint32_t> ids;
  for (size_t i = begin; i < end; ++i) {
    ids.push_back((*order)[question.descends ? total - 1 - i : i]);
  }
  return as_columns(document_, ids, total);
}

std::string AllocationTable::row(uint32_t id) const { return as_columns(document_, {id}, 1); }

std::shared_ptr<const AllocationTable::Order> AllocationTable::order_for(
    const TableQuestion& question) const {
  {
    MutexLock lock(mutex_);
    for (auto known = known_.begin(); known != known_.end(); ++known) {
      const bool is_same = known->sort == question.sort && known->moment == question.moment &&
                           known->search == question.search;
      if (!is_same) continue;
      known_.splice(known_.begin(), known_, known);
      return known_.front().order;
    }
  }
  auto order = std::make_shared<const Order>(find(question));
  MutexLock lock(mutex_);
  known_.push_front({question.sort, question.moment, question.search, order});
  if (known_.size() > kMostOrders) known_.pop_back();
  return order;
}

AllocationTable::Order AllocationTable::find(const TableQuestion& question) const {
  Order ids;
  if (question.moment) {
    for (const uint32_t rank : document_.lives().at(*question.moment)) {
      ids.push_back(document_.ids()[rank]);
    }
  } else {
    ids = document_.ids();
  }
  if (!question.search.empty()) {
    const std::vector<bool> wanted = stacks_with(question.search);
    std::erase_if(ids, [&](uint32_t id) {
      return !wanted[document_.stack_of(document_.allocations().all[id])];
    });
  }
  sort(question.sort, ids);
  return ids;
}

std::vector<bool> AllocationTable::stacks_with(std::string_view search) const {
  const StackIndex& stacks = document_.recording().stacks();
  std::vector<bool> wanted(stacks.size());
  for (uint32_t stack = 0; stack < stacks.size(); ++stack) {
    const std::vector<const Frame*> frames = stacks.frames(stack);
    wanted[stack] = std::any_of(frames.begin(), frames.end(), [&](const Frame* frame) {
      return has(text(frame->name, ":", frame->filename, ":", frame->line), search);
    });
  }
  return wanted;
}

// How long it lived, by the clock where there is one. What was never freed has outlived all others;
// what was there before is as old as the trace, at least.
uint64_t AllocationTable::age_of(const Allocation& allocation, bool has_times) const {
  constexpr uint64_t kForever = uint64_t{1} << 63;
  const std::vector<TraceEntry>& trace = document_.trace();
  const auto at = [&](uint32_t entry) {
    return has_times ? static_cast<uint64_t>(trace[entry].time_us) : entry;
  };
  const bool is_freed = allocation.completed < trace.size();
  const uint64_t begin = allocation.was_there_before() ? at(0) : at(allocation.made);
  const uint64_t end = at(is_freed ? allocation.completed : document_.entry_count() - 1);
  const uint64_t older = allocation.was_there_before() ? 1 : 0;
  // A clock may be put back, and a file may say anything.
  const uint64_t lived = end - begin >= kForever ? 0 : std::min(end - begin, kForever - 2);
  return lived + older + (is_freed ? 0 : kForever);
}

// What was there before comes before all that was made, and what was never freed after all that
// was. Equal ones stand in the order of their ids.
void AllocationTable::sort(SortKey key, Order& ids) const {
  const std::vector<TraceEntry>& trace = document_.trace();
  const bool has_times =
      key == SortKey::kAge && std::all_of(trace.begin(), trace.end(),
                                          [](const TraceEntry& entry) { return entry.has_time; });
  const auto value = [&](uint32_t id) -> uint64_t {
    const Allocation& each = document_.allocations().all[id];
    const uint64_t made = each.was_there_before() ? 0 : each.made + uint64_t{1};
    const uint64_t freed = each.completed == kNever ? document_.entry_count() + uint64_t{1}
                                                    : each.completed + uint64_t{1};
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
