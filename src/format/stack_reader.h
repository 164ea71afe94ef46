// SPDX-License-Identifier: Apache-2.0
//
// Stacks of a file, each kept once in the tables of a snapshot. Most entries share theirs with
// others: as the same list, or as an equal one.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ashlar/snapshot.h"
#include "format/fields.h"
#include "format/value_store.h"

namespace ashlar {

class StackReader {
 public:
  StackReader(Fields& fields, SnapshotTables& tables) : fields_(fields), tables_(tables) {}

  // A stack as it stands in a dict: "frames" and "forward_frames", either of which may be missing.
  struct Parts {
    Value frames{};   // kNone: missing
    Value forward{};  // kNone: missing
  };

  // Parts that are missing give stack 0. False: the fields have the problem.
  bool read(const Parts& parts, StackId& stack);

  // The position of a string in the tables; `none` is the word that stands for position 0.
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

  Fields& fields_;
  SnapshotTables& tables_;
  std::unordered_map<std::string, uint32_t, SeededHash> frame_index_;  // by all its parts
  std::unordered_map<std::string, uint32_t, SeededHash> stack_index_;
  std::vector<std::vector<std::string>> forwards_;
  std::unordered_map<uint64_t, uint32_t> pair_index_;  // stack and forward stack, to both together
  std::vector<uint32_t> frames_;                       // of the stack being read; kept for its room
  std::string key_;                                    // the same of an index's key
  std::vector<uint32_t> string_ids_;  // by position in the store; 0: not in the tables yet
};

}  // namespace ashlar
