// SPDX-License-Identifier: Apache-2.0
//
// Records trace entries of the classic engine: the action, the block, and the call stack that
// caused the action. Guarded by the engine's lock.
#pragma once

#include "engine/classic/classic_block.h"
#include "engine/hooks.h"

namespace ashlar::classic {

class Tracer {
 public:
  // `hooks` outlives the tracer.
  explicit Tracer(Hooks& hooks) : hooks_(hooks) {}

  // The stack of the call that holds the lock, if known. Entries are recorded with this stack or,
  // if it is unknown, with the stack that allocated the block or its segment.
  void set_caller_stack(StackId stack) { caller_stack_ = stack; }
  StackId caller_stack() const { return caller_stack_; }

  void record(TraceAction action, const ClassicBlock& block, size_t bytes);
  // Records a user's annotation of a block, with the stack that allocated the block.
  void record_annotation(const ClassicBlock& block, const std::string& text);

 private:
  Hooks& hooks_;
  StackId caller_stack_{};
};

}  // namespace ashlar::classic
