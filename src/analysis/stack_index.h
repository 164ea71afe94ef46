// SPDX-License-Identifier: Apache-2.0
//
// Stacks by content: two stacks that tell a reader the same are one, whichever table they stand in.
// What PyTorch's own tools leave out of a stack is left out here (the interpreter's and the
// dispatcher's frames), and what is left must agree in name, file and line. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "ashlar/snapshot.h"

namespace ashlar {

// Whether a frame says nothing about the program that allocated.
bool is_noise(const Frame& frame);

class StackIndex {
 public:
  static constexpr uint32_t kNoStack = 0;

  // The number of each stack of the tables, by StackId; equal for equal stacks of all tables added.
  // A stack that is nothing but noise keeps its frames. The tables must outlive the index.
  std::vector<uint32_t> add(const SnapshotTables& tables);

  size_t size() const { return stacks_.size(); }
  // Innermost first. REQUIRES: number < size().
  std::vector<const Frame*> frames(uint32_t number) const;

 private:
  using FrameKey = std::tuple<std::string_view, std::string_view, int64_t>;

  uint32_t number_of(std::vector<uint32_t> frames);

  // Trees, not hashes: a file that was made to be slow cannot choose its collisions.
  std::map<FrameKey, uint32_t> frame_numbers_;
  std::map<std::vector<uint32_t>, uint32_t> stack_numbers_ = {{{}, kNoStack}};
  std::vector<const Frame*> frames_;
  std::vector<const std::vector<uint32_t>*> stacks_ = {&stack_numbers_.begin()->first};
};

// The number of a stack, by what StackIndex::add returned; a stack that is in no table is none.
inline uint32_t stack_number(const std::vector<uint32_t>& numbers, StackId stack) {
  return stack.value() < numbers.size() ? numbers[stack.value()] : StackIndex::kNoStack;
}

}  // namespace ashlar
