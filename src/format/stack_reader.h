// SPDX-License-Identifier: Apache-2.0
//
// Reads the stacks of a file and interns them in the tables of a snapshot. Most trace entries share
// their stack with others, as the same list or as an equal one. Not thread safe.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ashlar/snapshot.h"
#include "format/field_reader.h"
#include "format/value_store.h"

namespace ashlar {

class StackReader {
 public:
  StackReader(FieldReader& fields, SnapshotTables& tables) : fields_(fields), tables_(tables) {}

  // The values of a dict that form a stack: "frames" and "forward_frames", both optional.
  struct Parts {
    Value frames{};   // kNone: missing
    Value forward{};  // kNone: missing
  };

  // Missing parts give stack 0. False: the FieldReader has the message.
  bool read(const Parts& parts, StackId& stack);

  // Interns a string. `none` is the text that stands for "no string", which is position 0.
  StringId string(Value string, Key none);

 private:
  bool read_frames(Value list, StackId& stack);
  bool read_with_forward(const Parts& parts, StackId& stack);
  bool read_frame(Value dict, uint32_t& frame);
  bool make_frame(std::span<const Value> items, uint32_t& frame);
  bool read_forward(Value list, uint32_t& forward);
  bool intern(std::span<const uint32_t> frames, std::span<const std::string> forward,
              StackId& stack);
  bool charge(size_t bytes);

  FieldReader& fields_;
  SnapshotTables& tables_;
  std::unordered_map<std::string, uint32_t, SeededHash> frame_index_;  // keyed by content
  std::unordered_map<std::string, uint32_t, SeededHash> stack_index_;
  std::vector<std::vector<std::string>> forwards_;
  std::unordered_map<uint64_t, uint32_t> pair_index_;  // (stack, forward stack) to the combined one
  std::vector<uint32_t> frames_;  // of the stack being read; a member to reuse its capacity
  std::string key_;               // index key of the stack being read; a member for the same reason
  std::vector<uint32_t> string_ids_;  // indexed by position in the store; 0: not in the tables yet
};

}  // namespace ashlar
