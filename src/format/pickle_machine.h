// SPDX-License-Identifier: Apache-2.0
//
// Interprets the opcodes of pickle protocols 2 to 5 that build plain values. Opcodes that import or
// call something are rejected, so reading a file executes no code. The values are stored in a
// ValueStore, from which snapshot_builder.cc builds a Snapshot.
//
// Time and memory are linear in the number of bytes that arrive, and memory is bounded by the
// store's limits. A machine reads one pickle. Not thread safe.
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

// The operand stack. Charges the store for its largest size.
class PickleStack {
 public:
  explicit PickleStack(ValueStore& store) : store_(store) {}

  size_t size() const { return values_.size(); }
  const Value& back() const { return values_.back(); }
  const Value& operator[](size_t index) const { return values_[index]; }
  // Returns the values from index `first` upwards.
  std::span<const Value> from(size_t first) const {
    return std::span<const Value>(values_).subspan(first);
  }
  // Returns false if the memory limit of the store is reached.
  bool push(Value value) {
    if (values_.size() == charged_count_ && !charge()) return false;
    values_.push_back(value);
    return true;
  }
  void truncate(size_t size) { values_.erase(values_.begin() + ptrdiff_t(size), values_.end()); }

 private:
  bool charge();

  ValueStore& store_;
  std::vector<Value> values_;
  size_t charged_count_ = 0;
};

class PickleMachine {
 public:
  PickleMachine(ByteSource& source, ValueStore& store)
      : input_(source), store_(store), stack_(store) {}

  // Returns the value on top of the stack at STOP. Bytes after STOP are ignored.
  // kFormat: the message contains the byte offset, what was found and what was expected. Other
  // errors are those of the source.
  Result<Value> run();

  uint64_t bytes_read() const { return input_.offset(); }

  // An entry of the opcode table. If `handler` is null, the opcode is rejected; `refusal` is the
  // reason, or empty if the opcode is unknown.
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
  template <bool kValue>
  bool push_boolean() {
    return push(Value::boolean(kValue));
  }
  template <typename Number>
  bool push_integer();
  template <typename Length>
  bool push_long();
  bool push_float();
  template <typename Length>
  bool push_string();
  template <typename Length>
  bool push_bytes();
  bool push_mark();
  bool push_empty_list();
  bool push_empty_dict();
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
  bool discard_to_mark();
  bool duplicate();

  bool push(Value value) { return check_store(stack_.push(value)); }
  bool push_number(std::string_view little_endian);
  bool put_at(uint64_t index);
  // Removes the newest mark and sets `first` to the index of the first value above it. Fails if
  // there is no mark.
  bool pop_mark(size_t& first);
  // Checks that there are at least `count` values above the newest mark.
  bool has_values(size_t count);
  bool append_to_list_below(size_t first);
  bool set_in_dict_below(size_t first);
  template <typename Number>
  bool read(Number& number);
  bool read_text(uint64_t length);

  bool fail(std::string_view problem);
  bool fail_at_end();
  bool check_store(bool stored) { return stored || fail(store_.problem()); }

  ByteReader input_;
  ValueStore& store_;
  PickleStack stack_;
  std::vector<size_t> marks_;  // size of stack_ when each mark was pushed
  std::vector<Value> memo_;
  std::string text_;
  uint64_t opcode_offset_ = 0;
  const Opcode* opcode_ = nullptr;
  bool is_finished_ = false;
  Status failure_;
};

}  // namespace ashlar
