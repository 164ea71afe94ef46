// SPDX-License-Identifier: Apache-2.0
//
// Builds the recording of a program with two blocks for tests of edits. All sizes are fixed, so the
// peak after an edit can be computed by hand.
#pragma once

#include "analysis/recording.h"
#include "unit/analysis/training/training_program.h"

namespace ashlar {

// Per iteration and block, the forward pass allocates a temporary (3000), an activation that is
// saved for the backward pass (4000), and the block's result (1000), which the next block or the
// loss saves. The program also allocates parameters (1000), optimizer state (1000, in the first
// step), tokens (64) and an extra input (2000) and, in the backward pass, a seed (4) and gradients
// of activations (500) and of the parameters (1000). `factor` multiplies the sizes that depend on
// the batch.
class BlockProgram {
 public:
  static constexpr const char* kModel = "/srv/jobs/model.py";

  BlockProgram() { program_.set_up_model(); }

  // From now on, gradients persist: zero_grad(set_to_none=False).
  void keep_gradients() { keeps_gradients_ = true; }
  // From now on, zero_grad() is not called.
  void skip_zero_grad() { skips_zero_grad_ = true; }
  void set_extra_bytes(size_t bytes) { extra_bytes_ = bytes; }

  // An iteration that fails in the first block, where it requests what the block saves.
  void failed_iteration(size_t failed_bytes) {
    program_.alloc(64, program_.input);
    program_.alloc(extra_bytes_, program_.input);
    program_.alloc(3000, begin_);
    program_.trace.add(TraceAction::kOom, 0, failed_bytes).from(save_);
  }

  void iteration(size_t factor = 1) {
    forward_and_backward(factor);
    optimizer_step();
  }

  void forward_and_backward(size_t factor = 1) {
    const uint64_t tokens = program_.alloc(64 * factor, program_.input);
    const uint64_t extra = program_.alloc(extra_bytes_ * factor, program_.input);
    uint64_t saved[2] = {};
    uint64_t results[2] = {};
    for (int block = 0; block < 2; ++block) {
      const uint64_t temporary = program_.alloc(3000 * factor, begin_);
      saved[block] = program_.alloc(4000 * factor, save_);
      program_.free(temporary, 3000 * factor, save_);
      results[block] = program_.alloc(1000 * factor, end_);
    }
    const uint64_t seed = program_.alloc(4, program_.call_backward);
    uint64_t gradient = program_.alloc(500 * factor, program_.autograd);
    program_.free(results[1], 1000 * factor, program_.autograd);
    for (int block = 1; block >= 0; --block) {
      const uint64_t inner = program_.alloc(500 * factor, program_.autograd);
      if (block == 0) program_.gradient = program_.alloc(1000, program_.autograd);
      program_.free(gradient, 500 * factor, program_.autograd);
      if (block == 0 && keeps_gradients_ && has_stepped_) {
        program_.free(program_.gradient, 1000, program_.autograd);
      }
      program_.free(saved[block], 4000 * factor, program_.autograd);
      if (block == 1) program_.free(results[0], 1000 * factor, program_.autograd);
      gradient = inner;
    }
    program_.free(gradient, 500 * factor, program_.autograd);
    program_.free(seed, 4, program_.call_backward);
    program_.free(extra, extra_bytes_ * factor, program_.after);
    program_.free(tokens, 64 * factor, program_.after);
  }

  void clear_gradients() { program_.free(program_.gradient, 1000, program_.zero_grad); }

  void record_allocation_stacks_only() { program_.record_allocation_stacks_only(); }

  DeviceRecording recording() {
    return {Recording::create("blocks", program_.trace.snapshot()), kTraceDevice};
  }

 private:
  void optimizer_step() {
    if (!has_stepped_) program_.alloc(1000, program_.step);
    has_stepped_ = true;
    program_.free(program_.alloc(1000, program_.step), 1000, program_.step);
    if (!keeps_gradients_ && !skips_zero_grad_)
      program_.free(program_.gradient, 1000, program_.zero_grad);
  }

  uint32_t stack_in_block(int64_t line) {
    return program_.stack(11, {{"forward", kModel, line},
                               {"_call_impl", TrainingProgram::kModule, 3},
                               {"forward", kModel, 40},
                               {"_call_impl", TrainingProgram::kModule, 3}});
  }

  TrainingProgram program_;
  uint32_t begin_ = stack_in_block(21);
  uint32_t save_ = stack_in_block(22);
  uint32_t end_ = stack_in_block(23);
  size_t extra_bytes_ = 2000;
  bool keeps_gradients_ = false;
  bool skips_zero_grad_ = false;
  bool has_stepped_ = false;
};

}  // namespace ashlar
