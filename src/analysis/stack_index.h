// SPDX-License-Identifier: Apache-2.0
//
// Numbers stacks by content, across the tables of several snapshots. Like PyTorch's tools, it drops
// the frames of the interpreter and the dispatcher; stacks are equal if the remaining frames agree
// in name, file and line. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "ashlar/snapshot.h"

namespace ashlar {

// Returns whether the frame belongs to the interpreter or the dispatcher.
bool is_boilerplate(const Frame& frame);

class StackIndex {
 public:
  static constexpr uint32_t kNoStack = 0;

  // Adds the stacks of a snapshot and returns their numbers, indexed by StackId. Equal stacks have
  // equal numbers. If all frames of a stack are boilerplate, the stack keeps them.
  // REQUIRES: the tables outlive the index.
  std::vector<uint32_t> add(const SnapshotTables& tables);

  size_t size() const { return stacks_.size(); }
  // Returns the frames of a stack, innermost first. REQUIRES: number < size().
  std::vector<const Frame*> frames(uint32_t number) const;

 private:
  using FrameKey = std::tuple<std::string_view, std::string_view, int64_t>;

  uint32_t number_of(std::vector<uint32_t> frames);

  // These maps are ordered, because a crafted file could cause hash collisions.
  std::map<FrameKey, uint32_t> frame_numbers_;
  std::map<std::vector<uint32_t>, uint32_t> stack_numbers_ = {{{}, kNoStack}};
  std::vector<const Frame*> frames_;
  std::vector<const std::vector<uint32_t>*> stacks_ = {&stack_numbers_.begin()->first};
};

// Looks up a stack in the result of StackIndex::add(). Returns kNoStack for unknown stacks.
inline uint32_t stack_number(const std::vector<uint32_t>& numbers, StackId stack) {
  return stack.value() < numbers.size() ? numbers[stack.value()] : StackIndex::kNoStack;
}

}  // namespace ashlar
