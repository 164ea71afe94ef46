// SPDX-License-Identifier: Apache-2.0
//
// Builds the recording of a small training program for tests: entries with stacks as PyTorch
// records them for Python code.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/allocations.h"
#include "analysis/training/categories.h"
#include "analysis/training/iterations.h"
#include "analysis/training/stack_traits.h"
#include "unit/analysis/trace_builder.h"

namespace ashlar {

class TrainingProgram {
 public:
  static constexpr const char* kLoop = "/srv/jobs/train.py";
  static constexpr const char* kModule = "/site-packages/torch/nn/modules/module.py";
  static constexpr const char* kLinear = "/site-packages/torch/nn/modules/linear.py";
  static constexpr const char* kTensor = "/site-packages/torch/_tensor.py";
  static constexpr const char* kOptimizer = "/site-packages/torch/optim/optimizer.py";
  static constexpr const char* kAdam = "/site-packages/torch/optim/adam.py";

  TraceBuilder trace{};  // declared before the stacks, whose initializers add to it

  // Adds a stack: the given frames, innermost first, called by line `line` of the training loop.
  uint32_t stack(int64_t line, std::vector<Frame> inner = {}) {
    inner.push_back({"train", kLoop, line});
    inner.push_back({"<module>", kLoop, 100});
    return add_stack(inner);
  }
  uint32_t add_stack(const std::vector<Frame>& frames) {
    SnapshotTables& tables = trace.snapshot().tables;
    Stack stack;
    for (const Frame& frame : frames) {
      stack.frames.push_back(static_cast<uint32_t>(tables.frames.size()));
      tables.frames.push_back(frame);
    }
    tables.stacks.push_back(stack);
    return static_cast<uint32_t>(tables.stacks.size() - 1);
  }

  // Lines of the loop: 10 input, 11 forward, 12 backward, 13 step, 14 zero_grad, 15 later code.
  uint32_t set_up = stack(1, {{"_apply", kModule, 1}, {"cuda", kModule, 2}});
  uint32_t input = stack(10);
  uint32_t forward = stack(11, {{"forward", kLinear, 1}, {"_call_impl", kModule, 3}});
  uint32_t call_backward =
      stack(12, {{"_make_grads", "/torch/autograd/__init__.py", 1}, {"backward", kTensor, 1}});
  uint32_t autograd = 0;
  uint32_t step = stack(13, {{"step", kAdam, 1}, {"wrapper", kOptimizer, 1}});
  uint32_t zero_grad = stack(14, {{"zero_grad", kOptimizer, 2}});
  uint32_t after = stack(15);

  uint64_t alloc(size_t bytes, uint32_t from) {
    const uint64_t address = next_address_ += 1U << 20U;
    trace.alloc(address, bytes).from(from);
    return address;
  }
  void free(uint64_t address, size_t bytes, uint32_t from) {
    trace.add(TraceAction::kFreeRequested, address, bytes).from(from);
    trace.add(TraceAction::kFreeCompleted, address, bytes).from(from);
  }
  void annotate(const std::string& name, const std::string& stage) {
    Annotation annotation;
    annotation.time_us = static_cast<int64_t>(entries()) + 1;  // of the next entry
    annotation.fields = {{"name", name}, {"stage", stage}};
    trace.snapshot().annotations.push_back(annotation);
  }
  uint32_t entries() { return static_cast<uint32_t>(trace.snapshot().device_traces[0].size()); }

  // Training of one parameter of 1000 bytes with Adam.
  void set_up_model() { alloc(1000, set_up); }
  void forward_and_backward(bool keep_gradient = false) {
    const uint64_t tokens = alloc(64, input);
    const uint64_t activation = alloc(5000, forward);
    const uint64_t temporary = alloc(700, forward);
    free(temporary, 700, forward);
    const uint64_t seed = alloc(4, call_backward);
    const uint64_t inner = alloc(5000, autograd);
    gradient = alloc(1000, autograd);
    free(activation, 5000, autograd);
    free(inner, 5000, autograd);
    free(seed, 4, call_backward);
    if (keep_gradient) free(gradient, 1000, autograd);
    free(tokens, 64, after);
  }
  void optimizer_step() {
    if (!has_state_) alloc(1000, step);
    has_state_ = true;
    const uint64_t temporary = alloc(1000, step);
    free(temporary, 1000, step);
    free(gradient, 1000, zero_grad);
  }
  void iteration() {
    forward_and_backward();
    optimizer_step();
  }

  // Gives the recorded frees the stacks of their allocations, like context="alloc".
  void record_allocation_stacks_only() {
    std::map<uint64_t, StackId> stacks;  // by address
    for (TraceEntry& each : trace.snapshot().device_traces[0]) {
      StackId& stack = stacks[each.address.value()];
      if (each.action == TraceAction::kAlloc) {
        stack = each.stack;
      } else {
        each.stack = stack;
      }
    }
  }

  uint64_t gradient = 0;

 private:
  uint64_t next_address_ = 0;
  bool has_state_ = false;
};

struct AnalyzedProgram {
  Allocations allocations{};
  Iterations iterations{};
  Categories categories{};
};

inline AnalyzedProgram analyze(TrainingProgram& program) {
  const Snapshot& snapshot = program.trace.snapshot();
  AnalyzedProgram analyzed;
  analyzed.allocations = find_allocations(snapshot, kTraceDevice);
  const StackTraitsTable traits(snapshot, analyzed.allocations.free_stacks);
  analyzed.iterations = find_iterations(snapshot, kTraceDevice, analyzed.allocations, traits);
  analyzed.categories =
      find_categories(snapshot, kTraceDevice, analyzed.allocations, traits, analyzed.iterations);
  return analyzed;
}

}  // namespace ashlar
