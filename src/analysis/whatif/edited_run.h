// SPDX-License-Identifier: Apache-2.0
//
// A recorded run as a list of operations that edits can change. A replay of the changed list
// predicts the memory of the edited program. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/recording.h"
#include "ashlar/snapshot.h"

namespace ashlar {

inline constexpr uint32_t kNoOperation = UINT32_MAX;

// One operation of the edited run. Operations other than allocs and frees are copied from the
// recording.
struct Operation {
  TraceAction action = TraceAction::kAlloc;
  bool is_inserted = false;          // added by an edit
  uint32_t allocation = UINT32_MAX;  // index into EditedRun::allocations; UINT32_MAX: none
  // The recorded entry of the operation. An inserted operation has the entry of the operation
  // before which it was inserted, and thereby its phase and iteration.
  uint32_t entry = 0;
  StackId stack{};
  size_t failed_bytes = 0;  // kOom: of the failed request; 0: an edit dropped it
};

// An allocation of the edited run, with the indexes of its operations. `begin` is kNoOperation if
// the allocation predates the recording. `free` and `completed` are kNoOperation if it is live at
// the end. All three are kNoOperation if an edit dropped an allocation of the trace.
struct EditedAllocation {
  uint32_t recorded = 0;  // index into Allocations::all; repeated allocations share it
  size_t bytes = 0;
  uint32_t begin = kNoOperation;
  uint32_t free = kNoOperation;
  uint32_t completed = kNoOperation;
};

// The requests of the recorded run that an edit selects.
struct Selection {
  std::vector<bool> allocations{};   // indexed like Allocations::all
  std::vector<uint32_t> failures{};  // the entries of failed requests, ascending

  bool contains_failure(const Operation& operation) const;
};

class EditedRun {
 public:
  // Copies the operations of the recording. An allocation whose free was not recorded, but whose
  // address was allocated again, is freed there. REQUIRES: the recording outlives this object.
  explicit EditedRun(const DeviceRecording& recording);

  const DeviceRecording& recording() const { return *recording_; }
  const std::vector<Operation>& operations() const { return operations_; }
  const std::vector<EditedAllocation>& allocations() const { return allocations_; }
  uint32_t size() const { return static_cast<uint32_t>(operations_.size()); }  // operations

  const Allocation& recorded(uint32_t allocation) const {
    return recording_->allocations().all[allocations_[allocation].recorded];
  }
  StackId stack_of(uint32_t allocation) const { return recorded(allocation).stack; }
  // Returns whether an edit dropped the allocation.
  bool is_dropped(uint32_t allocation) const;

  // Returns the requested bytes before the first operation.
  size_t requested_bytes_at_start() const;
  // Returns the requested bytes after each operation, including pending frees.
  std::vector<size_t> requested_bytes() const;
  // Returns the allocations that occupy memory after the first `operation_count` operations.
  std::vector<uint32_t> present_after(uint32_t operation_count) const;

  // The number of operations at the beginning that free dropped allocations which predate the
  // recording. The edited program never made these allocations, so peaks count after them.
  uint32_t dropped_at_start() const { return dropped_at_start_; }

 private:
  friend class RunChanges;
  void add_recorded_entry(uint32_t entry);
  void add(TraceAction action, uint32_t allocation, uint32_t entry);
  void index_operations();

  const DeviceRecording* recording_;
  std::vector<Operation> operations_;
  std::vector<EditedAllocation> allocations_;
  uint32_t dropped_at_start_ = 0;
};

// Collects changes of operations and applies them together. Until apply(), positions and indexes of
// operations are those of the unchanged run.
class RunChanges {
 public:
  // REQUIRES: the run outlives this object, and changes only through it.
  explicit RunChanges(EditedRun& run) : run_(run), is_removed_(run.size()) {}

  // Removes the operations of an allocation. An allocation that predates the recording is freed at
  // the beginning instead. REQUIRES: it is not dropped.
  void drop(uint32_t allocation);
  // Frees an allocation before `position`, and no longer where it was freed.
  // REQUIRES: it is allocated before `position`.
  void free_before(uint32_t position, uint32_t allocation);
  // Removes the free of an allocation.
  void keep(uint32_t allocation);
  // Takes effect immediately.
  void set_bytes(uint32_t allocation, size_t bytes);
  // Changes the size of a failed request; 0 drops it. Takes effect immediately.
  // REQUIRES: `operation` is a kOom operation.
  void set_failed_bytes(uint32_t operation, size_t bytes);
  // Adds an allocation like `original` before `position`, and returns its index.
  uint32_t allocate_before(uint32_t position, uint32_t original);
  // Frees an allocation that allocate_before() added.
  void free_added_before(uint32_t position, uint32_t added);
  // Frees `added`, too, where `original` is freed. The caller also moves the free of `original`.
  void take_over_free(uint32_t original, uint32_t added);

  // Applies all changes. At one position, the frees of free_before() come first; other inserted
  // operations follow in the order of the calls.
  void apply();

 private:
  struct Insertion {
    uint32_t position = 0;
    bool is_moved_free = false;
    Operation operation{};
  };

  void insert(uint32_t position, TraceAction action, uint32_t allocation);
  void remove_frees(uint32_t allocation);
  uint32_t entry_at(uint32_t position) const;

  EditedRun& run_;
  std::vector<bool> is_removed_;
  std::vector<Insertion> insertions_;
  uint32_t dropped_at_start_ = 0;
};

// The input of replay() for an edited run: a snapshot with the edited trace, and its allocations.
struct ReplayInput {
  Snapshot snapshot{};
  Allocations allocations{};
};
ReplayInput to_replay_input(const EditedRun& run);

}  // namespace ashlar
