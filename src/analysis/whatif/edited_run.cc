// SPDX-License-Identifier: Apache-2.0
//
// Copies a trace into operations, applies changes to them, and converts them back to a trace.
#include "analysis/whatif/edited_run.h"

#include <algorithm>
#include <tuple>

namespace ashlar {

bool Selection::contains_failure(const Operation& operation) const {
  return operation.action == TraceAction::kOom && operation.failed_bytes > 0 &&
         std::binary_search(failures.begin(), failures.end(), operation.entry);
}

EditedRun::EditedRun(const DeviceRecording& recording) : recording_(&recording) {
  const Allocations& recorded = recording.allocations();
  allocations_.resize(recorded.all.size());
  for (uint32_t i = 0; i < allocations_.size(); ++i) {
    allocations_[i].recorded = i;
    allocations_[i].bytes = recorded.all[i].bytes;
  }
  operations_.reserve(recording.trace().size());
  auto displaced = recorded.displaced.begin();
  for (uint32_t entry = 0; entry < recording.trace().size(); ++entry) {
    if (displaced != recorded.displaced.end() && displaced->entry == entry) {
      const uint32_t ended = (displaced++)->allocation;
      if (recorded.all[ended].free_entry == entry) add(TraceAction::kFreeRequested, ended, entry);
      add(TraceAction::kFreeCompleted, ended, entry);
    }
    add_recorded_entry(entry);
  }
  index_operations();
}

// If the trace has only one entry for a free, adds both operations.
void EditedRun::add_recorded_entry(uint32_t entry) {
  const TraceAction action = recording_->trace()[entry].action;
  const uint32_t id = recording_->allocations().by_entry[entry];
  if (id == Allocations::kNoAllocation) {
    add(action, UINT32_MAX, entry);
    return;
  }
  const Allocation& allocation = recording_->allocations().all[id];
  if (action == TraceAction::kFreeCompleted && allocation.free_entry == entry) {
    add(TraceAction::kFreeRequested, id, entry);
  }
  add(action, id, entry);
  if (action == TraceAction::kFreeRequested && allocation.completed_entry == entry) {
    add(TraceAction::kFreeCompleted, id, entry);
  }
}

void EditedRun::add(TraceAction action, uint32_t allocation, uint32_t entry) {
  const TraceEntry& traced = recording_->trace()[entry];
  operations_.push_back({.action = action,
                         .allocation = allocation,
                         .entry = entry,
                         .stack = traced.stack,
                         .failed_bytes = action == TraceAction::kOom ? traced.bytes : 0});
}

void EditedRun::index_operations() {
  for (EditedAllocation& each : allocations_) {
    each.begin = each.free = each.completed = kNoOperation;
  }
  for (uint32_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = operations_[i];
    if (operation.allocation == UINT32_MAX) continue;
    EditedAllocation& allocation = allocations_[operation.allocation];
    switch (operation.action) {
      case TraceAction::kAlloc: allocation.begin = i; break;
      case TraceAction::kFreeRequested: allocation.free = i; break;
      case TraceAction::kFreeCompleted: allocation.completed = i; break;
      default: break;
    }
  }
}

bool EditedRun::is_dropped(uint32_t allocation) const {
  const EditedAllocation& each = allocations_[allocation];
  if (each.begin != kNoOperation) return false;
  return !recorded(allocation).predates_trace() || each.free < dropped_at_start_;
}

namespace {

// Without an alloc operation, an allocation either predates the recording, or was dropped.
bool is_live_at_start(const EditedRun& run, const EditedAllocation& allocation) {
  const Allocation& recorded = run.recording().allocations().all[allocation.recorded];
  return allocation.begin == kNoOperation && recorded.predates_trace();
}

}  // namespace

size_t EditedRun::requested_bytes_at_start() const {
  size_t bytes = 0;
  for (const EditedAllocation& each : allocations_) {
    if (is_live_at_start(*this, each)) bytes += each.bytes;
  }
  return bytes;
}

std::vector<size_t> EditedRun::requested_bytes() const {
  size_t bytes = requested_bytes_at_start();
  std::vector<size_t> after;
  after.reserve(operations_.size());
  for (const Operation& operation : operations_) {
    if (operation.allocation != UINT32_MAX) {
      const size_t changed = allocations_[operation.allocation].bytes;
      if (operation.action == TraceAction::kAlloc) bytes += changed;
      if (operation.action == TraceAction::kFreeCompleted) bytes -= changed;
    }
    after.push_back(bytes);
  }
  return after;
}

std::vector<uint32_t> EditedRun::present_after(uint32_t operation_count) const {
  std::vector<uint32_t> present;
  for (uint32_t i = 0; i < allocations_.size(); ++i) {
    const EditedAllocation& each = allocations_[i];
    const bool has_begun =
        each.begin == kNoOperation ? is_live_at_start(*this, each) : each.begin < operation_count;
    if (has_begun && (each.completed == kNoOperation || each.completed >= operation_count)) {
      present.push_back(i);
    }
  }
  return present;
}

void RunChanges::drop(uint32_t allocation) {
  const EditedAllocation& dropped = run_.allocations_[allocation];
  remove_frees(allocation);
  if (dropped.begin != kNoOperation) {
    is_removed_[dropped.begin] = true;
    return;
  }
  insert(0, TraceAction::kFreeRequested, allocation);
  insert(0, TraceAction::kFreeCompleted, allocation);
  dropped_at_start_ += 2;
}

void RunChanges::free_before(uint32_t position, uint32_t allocation) {
  remove_frees(allocation);
  insert(position, TraceAction::kFreeRequested, allocation);
  insertions_.back().is_moved_free = true;
  insert(position, TraceAction::kFreeCompleted, allocation);
  insertions_.back().is_moved_free = true;
}

void RunChanges::keep(uint32_t allocation) { remove_frees(allocation); }

void RunChanges::set_bytes(uint32_t allocation, size_t bytes) {
  run_.allocations_[allocation].bytes = bytes;
}

void RunChanges::set_failed_bytes(uint32_t operation, size_t bytes) {
  run_.operations_[operation].failed_bytes = bytes;
}

uint32_t RunChanges::allocate_before(uint32_t position, uint32_t original) {
  const auto added = static_cast<uint32_t>(run_.allocations_.size());
  const EditedAllocation& repeated = run_.allocations_[original];
  run_.allocations_.push_back({.recorded = repeated.recorded, .bytes = repeated.bytes});
  insert(position, TraceAction::kAlloc, added);
  return added;
}

void RunChanges::free_added_before(uint32_t position, uint32_t added) {
  insert(position, TraceAction::kFreeRequested, added);
  insert(position, TraceAction::kFreeCompleted, added);
}

void RunChanges::take_over_free(uint32_t original, uint32_t added) {
  const EditedAllocation& freed = run_.allocations_[original];
  for (const uint32_t operation : {freed.free, freed.completed}) {
    if (operation == kNoOperation) continue;
    insertions_.push_back({.position = operation, .operation = run_.operations_[operation]});
    insertions_.back().operation.allocation = added;
  }
}

void RunChanges::insert(uint32_t position, TraceAction action, uint32_t allocation) {
  insertions_.push_back({.position = position,
                         .operation = {.action = action,
                                       .is_inserted = true,
                                       .allocation = allocation,
                                       .entry = entry_at(position),
                                       .stack = run_.stack_of(allocation)}});
}

void RunChanges::remove_frees(uint32_t allocation) {
  const EditedAllocation& freed = run_.allocations_[allocation];
  if (freed.free != kNoOperation) is_removed_[freed.free] = true;
  if (freed.completed != kNoOperation) is_removed_[freed.completed] = true;
}

uint32_t RunChanges::entry_at(uint32_t position) const {
  if (run_.operations_.empty()) return 0;
  return run_.operations_[std::min(position, run_.size() - 1)].entry;
}

void RunChanges::apply() {
  std::stable_sort(
      insertions_.begin(), insertions_.end(), [](const Insertion& a, const Insertion& b) {
        return std::tuple(a.position, !a.is_moved_free) < std::tuple(b.position, !b.is_moved_free);
      });
  std::vector<Operation> changed;
  changed.reserve(run_.operations_.size() + insertions_.size());
  auto next = insertions_.begin();
  for (uint32_t i = 0; i <= run_.size(); ++i) {
    for (; next != insertions_.end() && next->position == i; ++next) {
      changed.push_back(next->operation);
    }
    if (i < run_.size() && !is_removed_[i]) changed.push_back(run_.operations_[i]);
  }
  run_.operations_ = std::move(changed);
  run_.dropped_at_start_ += dropped_at_start_;
  run_.index_operations();
  insertions_.clear();
  is_removed_.assign(run_.size(), false);
  dropped_at_start_ = 0;
}

ReplayInput to_replay_input(const EditedRun& run) {
  const Snapshot& recorded = run.recording().snapshot();
  const auto device = static_cast<size_t>(run.recording().device().value());
  ReplayInput input;
  input.snapshot.segments = recorded.segments;
  input.snapshot.views = recorded.views;
  input.snapshot.extents = recorded.extents;
  input.snapshot.settings = recorded.settings;
  input.snapshot.device_traces.resize(std::max(recorded.device_traces.size(), device + 1));
  std::vector<TraceEntry>& trace = input.snapshot.device_traces[device];
  Allocations& allocations = input.allocations;
  for (const EditedAllocation& each : run.allocations()) {
    allocations.all.push_back(run.recording().allocations().all[each.recorded]);
    Allocation& added = allocations.all.back();
    added.bytes = each.bytes;
    added.alloc_entry = each.begin;
    added.free_entry = each.free;
    added.completed_entry = each.completed;
    // Without an alloc entry, replay() would treat a dropped allocation as one that predates the
    // trace. An entry beyond the end means that the allocation is never made.
    const bool is_never_made = each.begin == kNoOperation &&
                               !run.recording().allocations().all[each.recorded].predates_trace();
    if (is_never_made) added.alloc_entry = run.size();
  }
  allocations.preexisting_count = run.recording().allocations().preexisting_count;
  trace.reserve(run.size());
  for (const Operation& operation : run.operations()) {
    TraceEntry entry = run.recording().trace()[operation.entry];
    entry.action = operation.action;
    entry.stack = operation.stack;
    if (operation.allocation != UINT32_MAX) {
      const Allocation& allocation = allocations.all[operation.allocation];
      entry.address = allocation.address;
      entry.bytes = allocation.bytes;
      entry.stream = allocation.stream;
      entry.pool = allocation.pool;
    } else if (operation.action == TraceAction::kOom) {
      entry.bytes = operation.failed_bytes;
    }
    allocations.by_entry.push_back(operation.allocation);
    trace.push_back(entry);
  }
  return input;
}

}  // namespace ashlar
