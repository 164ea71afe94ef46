// SPDX-License-Identifier: Apache-2.0
//
// Numbers stacks by their shown frames, across the tables of several snapshots. Two stacks have the
// same number if their shown frames agree in name, file and line. Not thread safe.
//
// By default, the shown frames are those of the user's code (frame_kind.h), innermost first. A
// stack without user code shows its library frames or, if it has none, its native frames without
// those of the dispatcher and the allocator. A stack with neither shows all its frames.
//
// Some stacks without user code begin with a label, a frame without a file; they show no native
// frames. The label of a stack of PyTorch's backward pass is "backward pass (autograd thread)",
// followed by the name of the backward node, if known. In a snapshot with only Python frames, empty
// stacks are labeled, too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/allocations.h"
#include "ashlar/snapshot.h"

namespace ashlar {

enum class StackDetail {
  kUserCode,
  kFull,  // all frames
};

class StackIndex {
 public:
  static constexpr uint32_t kNoStack = 0;
  // The number of allocations that predate the trace and have no stack. Shows only a label.
  static constexpr uint32_t kBeforeRecording = 1;

  explicit StackIndex(StackDetail detail = StackDetail::kUserCode);
  StackIndex(StackIndex&&) = default;
  StackIndex& operator=(StackIndex&&) = default;

  // Adds the stacks of a snapshot and returns their numbers, indexed by StackId.
  // REQUIRES: the tables outlive the index.
  std::vector<uint32_t> add(const SnapshotTables& tables);

  size_t size() const { return shown_.size(); }
  // Returns whether a snapshot without Python frames has user functions without line numbers, which
  // means that the program lacks debug information.
  bool lacks_lines() const { return lacks_lines_; }
  // Returns the shown frames of a stack, innermost first. REQUIRES: number < size().
  std::vector<const Frame*> frames(uint32_t number) const;
  // Returns all frames of the first stack that was added with this number, innermost first.
  // REQUIRES: number < size().
  std::vector<const Frame*> full_frames(uint32_t number) const;

 private:
  using FrameKey = std::tuple<std::string_view, std::string_view, int64_t>;
  using FrameNumbers = std::vector<uint32_t>;

  uint32_t frame_number(const Frame& frame);
  uint32_t label_number(std::string text);
  uint32_t number_of(FrameNumbers shown, const FrameNumbers& all);
  std::vector<const Frame*> frames_of(const FrameNumbers& numbers) const;

  StackDetail detail_;
  // These maps are ordered, because a crafted file could cause hash collisions.
  std::map<FrameKey, uint32_t> frame_numbers_;
  std::map<FrameNumbers, uint32_t> stack_numbers_;
  std::map<std::string, Frame> labels_;  // by name
  std::vector<const Frame*> frames_;
  std::vector<const FrameNumbers*> shown_;
  std::vector<FrameNumbers> full_;
  bool lacks_lines_ = false;
};

// Looks up a stack in the result of StackIndex::add(). Returns kNoStack for unknown stacks.
inline uint32_t stack_number(const std::vector<uint32_t>& numbers, StackId stack) {
  return stack.value() < numbers.size() ? numbers[stack.value()] : StackIndex::kNoStack;
}

// Looks up the stack of an allocation. Returns kBeforeRecording if the allocation has no stack
// because it predates the trace.
inline uint32_t stack_number(const std::vector<uint32_t>& numbers, const Allocation& allocation) {
  const uint32_t number = stack_number(numbers, allocation.stack);
  const bool is_unknown = number == StackIndex::kNoStack && allocation.predates_trace();
  return is_unknown ? StackIndex::kBeforeRecording : number;
}

}  // namespace ashlar
