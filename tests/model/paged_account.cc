// SPDX-License-Identifier: Apache-2.0
//
// Adds up the trace entries that trackers received, and compares the sums with the engine and the
// device.
#include "base/text.h"
#include "paged_run.h"

namespace ashlar::model {

void PagedRun::on_trace_entry(const TraceEntry& entry) {
  switch (entry.action) {
    case TraceAction::kAlloc: {
      // The entry has only the requested size. record_block adds the block's size to the account.
      const ActiveBlock active{0, entry.bytes, entry.stream, entry.pool};
      if (!active_.emplace(entry.address, active).second) {
        disagree(text("two blocks at ", entry.address));
      }
      break;
    }
    case TraceAction::kFreeRequested: {
      const auto found = active_.find(entry.address);
      if (found == active_.end()) return disagree("a free of no block");
      found->second.is_pending = true;
      update_account(found->second, -1, /*allocated=*/true, /*is_active=*/false);
      break;
    }
    case TraceAction::kFreeCompleted: {
      const auto found = active_.find(entry.address);
      if (found == active_.end() || !found->second.is_pending) {
        return disagree("a free completed that was not requested");
      }
      update_account(found->second, -1, /*allocated=*/false, /*is_active=*/true);
      release_extent_parts(found->second);
      active_.erase(found);
      break;
    }
    case TraceAction::kSegmentMap:
    case TraceAction::kSegmentAlloc:
      if (!reported_mappings_.emplace(entry.address, entry.bytes).second) disagree("mapped twice");
      break;
    case TraceAction::kSegmentUnmap:
    case TraceAction::kSegmentFree: {
      const auto found = reported_mappings_.find(entry.address);
      const bool is_known = found != reported_mappings_.end() && found->second == entry.bytes;
      if (!is_known) return disagree("unmapped what was not mapped");
      reported_mappings_.erase(found);
      break;
    }
    default: break;
  }
}

void PagedRun::update_account(const ActiveBlock& active, int64_t sign, bool allocated,
                              bool is_active) {
  const bool is_small = SizePolicy::is_small(active.bytes);
  const auto change = [&](Stat& stat, int64_t by) {
    if (sign > 0) stat.increase(by);
    if (sign < 0) stat.decrease(by);
  };
  const auto change_all = [&](StatTriple& triple, int64_t by) {
    change(triple.all, by);
    change(triple.of(is_small), by);
  };
  const auto bytes = static_cast<int64_t>(active.bytes);
  const auto requested_bytes = static_cast<int64_t>(active.requested_bytes);
  const std::array usages = {&account_.streams[active.stream], &account_.pools[active.pool]};
  if (allocated) {
    change_all(account_.allocation, 1);
    change_all(account_.allocated_bytes, bytes);
    for (UsageStats* usage : usages) {
      change(usage->allocation, 1);
      change(usage->allocated_bytes, bytes);
    }
  }
  if (!is_active) return;
  change_all(account_.active, 1);
  change_all(account_.active_bytes, bytes);
  change_all(account_.requested_bytes, requested_bytes);
  for (UsageStats* usage : usages) {
    change(usage->active_bytes, bytes);
    change(usage->requested_bytes, requested_bytes);
  }
}

// Records the block's size and the parts of extents that the block occupies. No other active block
// may overlap these parts.
void PagedRun::record_block(const Block& block) {
  const auto found = active_.find(block.address);
  if (found == active_.end()) return disagree("a block that trackers do not know");
  found->second.bytes = block.bytes;
  update_account(found->second, 1, /*allocated=*/true, /*is_active=*/true);
  const BlockMemory memory = engine_->block_memory(&block);
  if (!memory.range.contains(AddressRange{block.address, block.bytes})) {
    return disagree("a block outside of its memory");
  }
  DeviceAddress at = memory.range.begin;
  for (const ExtentId extent : memory.extents) {
    const Result<AddressDescription> what = device().describe(at);
    if (!what.ok() || what->range.begin != at) return disagree("an extent that is not there");
    const DeviceAddress end = what->range.end();
    const size_t first = block.address > at ? block.address - at : 0;
    const size_t last = std::min(block.end(), end) - at;
    const ExtentPart part{extent, first, last};
    const auto after = extent_owners_.lower_bound({extent, first});
    const bool hits_next =
        after != extent_owners_.end() && after->first.first == extent && after->first.second < last;
    const bool hits_before = after != extent_owners_.begin() &&
                             std::prev(after)->first.first == extent &&
                             std::prev(after)->second.first > first;
    if (hits_next || hits_before) {
      return disagree(text("the memory of the block at ", block.address, " is also that at ",
                           hits_next ? after->second.second : std::prev(after)->second.second));
    }
    extent_owners_[{extent, first}] = {last, block.address};
    found->second.extent_parts.push_back(part);
    at = end;
  }
}

void PagedRun::release_extent_parts(const ActiveBlock& active) {
  for (const ExtentPart& part : active.extent_parts)
    extent_owners_.erase({part.extent, part.begin});
}

void PagedRun::compare(const std::string& name, const Stat& found, const Stat& kept) {
  const bool is_same = found.current == kept.current && found.peak == kept.peak &&
                       found.increased == kept.increased && found.decreased == kept.decreased;
  if (is_same) return;
  const auto words = [](const Stat& stat) {
    return text(stat.current, " (peak ", stat.peak, ", increased ", stat.increased, ", decreased ",
                stat.decreased, ")");
  };
  disagree(text(name, " is ", words(found), ", and should be ", words(kept)));
}

void PagedRun::check_sums() {
  expect_ok(engine_->validate(), "validate");
  const AllocatorStats found = engine_->stats();
  const auto compare_triples = [&](const std::string& name, const StatTriple& a,
                                   const StatTriple& b) {
    compare(name, a.all, b.all);
    compare(name + " of small blocks", a.small_pool, b.small_pool);
    compare(name + " of large blocks", a.large_pool, b.large_pool);
  };
  compare_triples("allocation", found.allocation, account_.allocation);
  compare_triples("allocated_bytes", found.allocated_bytes, account_.allocated_bytes);
  compare_triples("active", found.active, account_.active);
  compare_triples("active_bytes", found.active_bytes, account_.active_bytes);
  compare_triples("requested_bytes", found.requested_bytes, account_.requested_bytes);
  const auto compare_usages = [&](const std::string& name, const UsageStats& a,
                                  const UsageStats& b) {
    compare(name + " allocation", a.allocation, b.allocation);
    compare(name + " allocated_bytes", a.allocated_bytes, b.allocated_bytes);
    compare(name + " active_bytes", a.active_bytes, b.active_bytes);
    compare(name + " requested_bytes", a.requested_bytes, b.requested_bytes);
  };
  for (const auto& [stream, usage] : found.streams) {
    compare_usages(text("stream ", stream.value()), usage, account_.streams[stream]);
  }
  for (const auto& [pool, usage] : found.pools) {
    compare_usages(text("pool ", pool.user), usage, account_.pools[pool]);
  }
  check_reported_mappings();
  if (mismatches_.count() != 0) disagree(text("a block was overwritten: ", mismatches_.first()));
}

// Checks that the mappings that trackers received add up to the device's used memory, and that they
// cover all active blocks.
void PagedRun::check_reported_mappings() {
  size_t reported_bytes = 0;
  DeviceAddress end;
  for (const auto& [begin, bytes] : reported_mappings_) {
    if (begin < end) disagree("trackers see two mappings at one address");
    end = begin + bytes;
    reported_bytes += bytes;
  }
  const DeviceMemoryStats use = *device().memory_stats();
  if (reported_bytes != use.total_bytes - use.free_bytes) {
    disagree(text("trackers know of ", reported_bytes, " B of ", use.total_bytes - use.free_bytes));
  }
  for (const auto& [address, active] : active_) {
    DeviceAddress at = address;
    for (auto it = reported_mappings_.upper_bound(at);
         it != reported_mappings_.begin() && at < address + active.bytes; ++it) {
      const auto& [begin, bytes] = *std::prev(it);
      if (at < begin || at >= begin + bytes) break;
      at = begin + bytes;
      if (it == reported_mappings_.end()) break;
    }
    if (at < address + active.bytes) disagree(text("nothing is mapped under ", address));
  }
}

}  // namespace ashlar::model
