// SPDX-License-Identifier: Apache-2.0
//
// Reads the stacks of a file and interns them in the tables of a snapshot. Most trace entries have
// the same stack as other entries: the same list, or an equal list. Not thread safe.
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

  // The values of a dict that form a stack: "frames" and "forward_frames". Both are optional.
  struct StackValues {
    Value frames{};   // kNone: missing
    Value forward{};  // kNone: missing
  };

  // Reads and interns a stack. Sets `stack` to StackId(0) if both values are missing. Returns false
  // on errors; the FieldReader then has the message.
  bool read(const StackValues& values, StackId& stack);

  // Interns a string; StringId(0) if its text is `none`, which means "no string". Returns false on
  // errors; the FieldReader then has the message.
  bool intern_string(Value string, Key none, StringId& made);

  // Returns the bytes of text that a format without sharing needs for a stack.
  size_t text_bytes(StackId stack) const { return stack_text_bytes_[stack.value()]; }
  size_t text_bytes(StringId string) const { return tables_.strings[string.value()].size(); }

 private:
  bool read_frames(Value list, StackId& stack);
  bool read_with_forward(const StackValues& values, StackId& stack);
  bool read_frame(Value dict, uint32_t& frame);
  bool make_frame(std::span<const Value> items, uint32_t& frame);
  bool read_forward(Value list, uint32_t& forward);
  bool intern(std::span<const uint32_t> frames, std::span<const std::string> forward,
              StackId& stack);

  FieldReader& fields_;
  SnapshotTables& tables_;
  std::unordered_map<std::string, uint32_t, SeededHash> frame_index_;  // keyed by content
  std::unordered_map<std::string, uint32_t, SeededHash> stack_index_;
  std::vector<size_t> stack_text_bytes_ = {0};  // indexed by StackId
  std::vector<std::vector<std::string>> forward_stacks_;
  std::unordered_map<uint64_t, uint32_t>
      pair_index_;                // (stack, forward stack) to the combined stack
  std::vector<uint32_t> frames_;  // frames of the stack being read; a member to reuse its capacity
  // The additional fields of the frame that is being read; a member, so that its capacity is
  // reused.
  std::vector<std::pair<std::string_view, std::string_view>> extra_;
  std::string key_;  // key in stack_index_ of the stack being read; a member to reuse its capacity
  std::vector<uint32_t> string_ids_;  // indexed by position in the store; 0: not in the tables yet
};

}  // namespace ashlar
