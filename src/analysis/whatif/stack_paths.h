// SPDX-License-Identifier: Apache-2.0
//
// The call path of each stack of a recording, and whether an operation belongs to the program or to
// a backward pass. Immutable and therefore thread safe.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/training/training_analysis.h"
#include "analysis/whatif/edited_run.h"

namespace ashlar {

class StackPaths {
 public:
  // REQUIRES: the recording outlives this object.
  explicit StackPaths(const DeviceRecording& recording);

  // Returns the frames of a stack, outermost first, without native frames if it has Python code.
  // Equal frames have equal indexes into SnapshotTables::frames.
  const std::vector<uint32_t>& of(StackId stack) const {
    return paths_[stack.value() < paths_.size() ? stack.value() : 0];
  }
  // Returns whether a stack has Python code.
  bool has_python(StackId stack) const { return training_.traits.of(stack).has_python; }

  // Returns whether the program's Python code, and not an autograd thread, allocated or freed.
  // False for a free whose own stack is not recorded. An operation of the call of backward(), on
  // the program's thread, belongs to the program and to the backward pass; an operation that an
  // edit inserted, to neither.
  bool is_of_program(const Operation& operation) const;
  // Returns whether a backward pass allocated or freed, but not in Python code that an autograd
  // thread calls, such as a hook. Without a stack, the phase decides.
  bool is_of_backward(const Operation& operation) const;

 private:
  CallSite site_of(const Operation& operation) const;
  bool is_in_backward_pass(uint32_t entry) const;

  const TrainingAnalysis& training_;
  std::vector<std::vector<uint32_t>> paths_;
  std::vector<bool> is_backward_;  // for each recorded entry: in a backward pass
};

}  // namespace ashlar
