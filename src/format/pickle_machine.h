// SPDX-License-Identifier: Apache-2.0
//
// Runs the program that a pickle is, as far as it only builds values: opcodes of protocols 2 to 5,
// whoever wrote them. Opcodes that call or import something are refused, so that reading a file
// executes nothing. The values go to a ValueStore; what they mean is snapshot_builder.cc's
// business.
//
// Time and memory are linear in the bytes that have arrived, and memory is bounded by the store's
// limits. One machine reads one pickle.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"
#include "format/byte_reader.h"
#include "format/value_store.h"

namespace ashlar {

class PickleMachine {
 public:
  PickleMachine(ByteSource& source, ValueStore& store) : input_(source), store_(store) {}

  // The value that the pickle leaves at its end. Bytes behind that are not looked at.
  // kFormat: the message has the byte offset, what was found and what was expected. Other kinds
  // come from the source.
  Result<Value> run();

  uint64_t bytes_read() const { return input_.offset(); }

  // An opcode and what it does; `refusal` says why the machine will not.
  struct Opcode {
    std::string_view name{};
    bool (PickleMachine::*handler)() = nullptr;
    std::string_view refusal{};
  };

 private:
  friend struct PickleOpcodes;  // the table of handlers

  bool start();
  bool step();

  bool skip_frame();
  bool finish();
  bool push_none() { return push({}); }
  bool push_true() { return push(Value::boolean(true)); }
  bool push_false() { return push(Value::boolean(false)); }
  bool push_u8();
  bool push_u16();
  bool push_i32();
  bool push_long1();
  bool push_long4();
  bool push_float();
  template <typename Length>
  bool push_string();
  template <typename Length>
  bool push_bytes();
  bool push_mark();
  bool push_empty_list();
  bool push_empty_dict();
  bool push_empty_tuple();
  template <size_t kCount>
  bool make_tuple();
  bool make_tuple_from_mark();
  bool make_list_from_mark();
  bool make_dict_from_mark();
  bool append_one();
  bool append_from_mark();
  bool set_one();
  bool set_from_mark();
  bool memoize();
  template <typename Index>
  bool put();
  template <typename Index>
  bool get();
  bool pop();
  bool pop_mark();
  bool duplicate();

  // Values on the stack are charged by the highest it ever was.
  bool push(Value value) {
    if (stack_.size() == charged_stack_ && !charge_stack()) return false;
    stack_.push_back(value);
    return true;
  }
  bool charge_stack();
  bool push_number(std::string_view little_endian);
  bool put_at(uint64_t index);
  // The values above the newest mark or, failing that, false.
  bool above_mark(size_t& first);
  // Whether there are `count` values above the newest mark.
  bool has_values(size_t count);
  bool append_to_list_below(size_t first);
  bool set_in_dict_below(size_t first);
  std::span<const Value> values_from(size_t first) const {
    return std::span<const Value>(stack_).subspan(first);
  }
  void truncate(size_t size) { stack_.erase(stack_.begin() + ptrdiff_t(size), stack_.end()); }
  template <typename Number>
  bool read(Number& number);
  bool read_text(uint64_t length);

  bool fail(std::string_view problem);
  bool fail_at_end();
  bool check_store(bool stored) { return stored || fail(store_.problem()); }

  ByteReader input_;
  ValueStore& store_;
  std::vector<Value> stack_;
  size_t charged_stack_ = 0;   // values of it that the store counts
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<Value> memo_;
  std::string text_;
  uint64_t opcode_offset_ = 0;
  const Opcode* opcode_ = nullptr;
  bool is_finished_ = false;
  Status failure_;
};

}  // namespace ashlar
