// SPDX-License-Identifier: Apache-2.0
//
// Classifies call stacks of training programs: on which thread and in which part of PyTorch an
// operation happened. Phases and categories are derived from these traits. stack_traits.cc contains
// the names of PyTorch's files and functions that identify them. Immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/allocations.h"
#include "ashlar/snapshot.h"

namespace ashlar {

// Where an operation came from.
enum class CallSite : uint8_t {
  kUnknown,       // no stack was recorded
  kOther,         // a thread of the program, in none of the functions below
  kBackwardCall,  // in Tensor.backward() or torch.autograd.grad(), on the thread that called it
  kAutograd,      // an autograd thread
  kOptimizer,     // in Optimizer.step()
  kZeroGrad,      // in zero_grad()
};

struct StackTraits {
  CallSite alloc_site = CallSite::kUnknown;  // of an allocation with this stack
  CallSite free_site = CallSite::kUnknown;   // of a free with this stack, if the stack is its own
  bool has_python = false;                   // has a frame of Python code
  bool in_module_call = false;               // in the forward pass of a module or of compiled code
  bool in_module_setup = false;              // in code that creates, loads or moves parameters
  bool in_replication = false;               // in code that copies parameters to other devices
  bool in_optimizer_setup = false;           // in code that creates or loads an optimizer's state
  bool in_recomputation = false;             // in a forward pass repeated for checkpointing
  bool in_workspace_function = false;        // a library's function for workspaces or KV caches
  bool in_communication = false;             // in code of distributed training
  bool innermost_is_library = false;  // the innermost Python frame is in an installed package
};

// The traits of all stacks of a snapshot.
class StackTraitsTable {
 public:
  // `free_stacks` is that of the device's allocations.
  explicit StackTraitsTable(const Snapshot& snapshot, FreeStacks free_stacks = FreeStacks::kOfFree);

  // Returns the traits of a stack; those of the empty stack if `stack` is out of range.
  const StackTraits& of(StackId stack) const {
    return traits_[stack.value() < traits_.size() ? stack.value() : 0];
  }
  // Whether any stack has a frame.
  bool has_stacks() const { return has_stacks_; }

  // Returns the frames of Python code of a stack, outermost first, as indexes into the snapshot's
  // table of frames. Equal frames have equal indexes. If the stack has no Python code, returns all
  // frames. REQUIRES: the snapshot still exists.
  std::vector<uint32_t> call_path(StackId stack) const;
  // Returns the part of the call path before the first call of a module.
  std::vector<uint32_t> path_to_module(StackId stack) const;

 private:
  const SnapshotTables* tables_;
  std::vector<uint32_t> first_equal_;  // for each frame: the first frame that equals it
  std::vector<uint32_t> properties_;   // for each frame: see stack_traits.cc
  std::vector<StackTraits> traits_;    // indexed by StackId; never empty
  bool has_stacks_ = false;
};

}  // namespace ashlar
