// SPDX-License-Identifier: Apache-2.0
//
// One pass over the trace that tracks the live allocation at each address.
#include "analysis/allocations.h"

#include <algorithm>
#include <unordered_map>

#include "engine/size_policy.h"

namespace ashlar {
namespace {

class AllocationFinder {
 public:
  explicit AllocationFinder(size_t entry_count) {
    found_.by_entry.assign(entry_count, Allocations::kNoAllocation);
  }

  void visit(uint32_t index, const TraceEntry& entry) {
    switch (entry.action) {
      case TraceAction::kAlloc: begin(index, entry); break;
      case TraceAction::kFreeRequested: free(index, entry); break;
      case TraceAction::kFreeCompleted: complete(index, entry); break;
      case TraceAction::kOom: fail(index, entry); break;
      default: break;
    }
  }

  // Adds a block that is live at the end and has no trace entry.
  void add_untraced(const SnapshotSegment& segment, const SnapshotBlock& block) {
    if (block.state == SnapshotBlockState::kInactive || live_.contains(block.address.value())) {
      return;
    }
    Allocation allocation;
    allocation.address = block.address;
    allocation.bytes = block.requested_bytes;
    allocation.stream = segment.stream;
    allocation.pool = segment.pool;
    allocation.stack = block.stack;
    found_.all.push_back(allocation);
    ++found_.preexisting_count;
  }

  Allocations result() {
    found_.free_stacks = free_stacks();
    if (found_.free_stacks == FreeStacks::kOfFree) {
      for (Allocation& each : found_.all) {
        if (each.predates_trace() && each.free_entry != Allocation::kNoEntry) each.stack = {};
      }
    }
    return std::move(found_);
  }

 private:
  // Begins an allocation. If the trace does not complete the free of an earlier allocation at the
  // address, that allocation ends at this entry.
  void begin(uint32_t index, const TraceEntry& entry) {
    const uint32_t id = add(entry);
    if (const auto before = live_.find(entry.address.value()); before != live_.end()) {
      Allocation& ended = found_.all[before->second];
      if (ended.free_entry == Allocation::kNoEntry) ended.free_entry = index;
      ended.completed_entry = index;
      found_.displaced.push_back({index, before->second});
    }
    found_.all[id].alloc_entry = index;
    found_.by_entry[index] = id;
    live_[entry.address.value()] = id;
  }

  void free(uint32_t index, const TraceEntry& entry) {
    const uint32_t id = find_or_add(entry);
    compare_stacks(found_.all[id], entry);
    found_.all[id].free_entry = index;
    found_.by_entry[index] = id;
  }

  void complete(uint32_t index, const TraceEntry& entry) {
    const uint32_t id = find_or_add(entry);
    Allocation& allocation = found_.all[id];
    compare_stacks(allocation, entry);
    allocation.completed_entry = index;
    if (allocation.free_entry == Allocation::kNoEntry) allocation.free_entry = index;
    found_.by_entry[index] = id;
    live_.erase(entry.address.value());
  }

  void compare_stacks(const Allocation& allocation, const TraceEntry& free) {
    if (allocation.predates_trace() || free.stack == StackId()) return;
    (free.stack == allocation.stack ? has_equal_stacks_ : has_other_stacks_) = true;
  }

  void fail(uint32_t index, const TraceEntry& entry) {
    if (entry.bytes == 0) return;
    found_.failed.push_back({index, std::min(entry.bytes, kRequestLimitBytes - 1)});
  }

  // Returns whose stacks the entries of frees store: those of the allocations, if PyTorch recorded
  // only these, otherwise those of the frees. The compared stacks decide: in the first case, each
  // equals the stack of the allocation.
  FreeStacks free_stacks() const {
    return has_equal_stacks_ && !has_other_stacks_ ? FreeStacks::kOfAllocation
                                                   : FreeStacks::kOfFree;
  }

  // Returns the index of the allocation that the entry frees. If no allocation is live at the
  // address, adds an allocation that predates the trace.
  uint32_t find_or_add(const TraceEntry& entry) {
    const auto [place, is_new] = live_.try_emplace(entry.address.value(), 0);
    if (is_new) {
      place->second = add(entry);
      ++found_.preexisting_count;
    }
    return place->second;
  }

  uint32_t add(const TraceEntry& entry) {
    Allocation allocation;
    allocation.address = entry.address;
    allocation.bytes = entry.bytes;
    allocation.stream = entry.stream;
    allocation.pool = entry.pool;
    allocation.stack = entry.stack;
    found_.all.push_back(allocation);
    return static_cast<uint32_t>(found_.all.size() - 1);
  }

  Allocations found_;
  std::unordered_map<uint64_t, uint32_t> live_;  // keyed by address
  // Whether any free has the stack of its allocation, and whether any has a different one.
  bool has_equal_stacks_ = false;
  bool has_other_stacks_ = false;
};

}  // namespace

Allocations find_allocations(const Snapshot& snapshot, DeviceIndex device) {
  static const std::vector<TraceEntry> no_trace;
  const bool has_trace = device.value() < snapshot.device_traces.size();
  const std::vector<TraceEntry>& trace =
      has_trace ? snapshot.device_traces[device.value()] : no_trace;
  AllocationFinder finder(trace.size());
  for (uint32_t i = 0; i < trace.size(); ++i) finder.visit(i, trace[i]);
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device) continue;
    for (const SnapshotBlock& block : segment.blocks) finder.add_untraced(segment, block);
  }
  return finder.result();
}

}  // namespace ashlar
