// SPDX-License-Identifier: Apache-2.0
//
// The opcode handlers, in the order of the table at the end. Each returns false after an error.
// The file is long because all handlers share the state of the machine.
#include "format/pickle_machine.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/text.h"
#include "format/utf8.h"

namespace ashlar {

static_assert(std::endian::native == std::endian::little, "numbers in pickles are little-endian");

namespace {

// This limit bounds the memory for marks: a mark takes one byte in the file and eight bytes in
// memory.
constexpr size_t kMaxMarks = 1 << 20;
constexpr int kFirstProtocol = 2;
constexpr int kLastProtocol = 5;

// An unused memo entry. No value on the stack equals it.
constexpr Value kUnset = {.kind = ValueKind::kNone, .bits = 1};

constexpr std::string_view kRefusedCall =
    "importing and calling are not allowed (expected only dicts, lists, tuples, strings and "
    "numbers)";
constexpr std::string_view kRefusedTextual =
    "an opcode of the textual protocols 0 and 1 (expected protocol 2 to 5)";
constexpr std::string_view kRefusedValue = "snapshots do not contain such values";

}  // namespace

// The opcodes, indexed by their byte. Undefined opcodes have no name.
struct PickleOpcodes {
  using Machine = PickleMachine;
  static constexpr std::array<Machine::Opcode, 256> make();
  static constexpr void add_refused(std::array<Machine::Opcode, 256>& table);
  static const std::array<Machine::Opcode, 256> kTable;
};

bool PickleStack::charge() {
  constexpr size_t kStep = 1024;
  if (!store_.charge(kStep * sizeof(Value))) return false;
  charged_count_ += kStep;
  return true;
}

Result<Value> PickleMachine::run() {
  bool is_ok = start();
  while (is_ok && !is_finished_) is_ok = step();
  if (!is_ok) return failure_;
  return stack_.back();
}

bool PickleMachine::step() {
  opcode_offset_ = input_.offset();
  const char* byte = input_.take(1);
  if (byte == nullptr) {
    opcode_ = nullptr;
    return fail_at_end();
  }
  opcode_ = &PickleOpcodes::kTable[static_cast<uint8_t>(*byte)];
  if (opcode_->handler != nullptr) return (this->*opcode_->handler)();
  if (!opcode_->refusal.empty()) return fail(opcode_->refusal);
  return fail(text("unknown opcode ", int{static_cast<uint8_t>(*byte)},
                   " (expected one of protocols 2 to 5)"));
}

bool PickleMachine::start() {
  const char* bytes = input_.take(2);
  if (bytes == nullptr) return fail_at_end();
  const int protocol = static_cast<uint8_t>(bytes[1]);
  if (bytes[0] != '\x80') return fail("not a pickle (expected byte 128 at the beginning)");
  if (protocol < kFirstProtocol || protocol > kLastProtocol) {
    return fail(text("the pickle's protocol is ", protocol, " (expected 2 to 5)"));
  }
  return true;
}

// Skips the length of a frame, which only helps readers that prefetch.
bool PickleMachine::skip_frame() {
  uint64_t length = 0;
  return read(length);
}

bool PickleMachine::finish() {
  if (!marks_.empty()) return fail("a mark is still open (expected a complete value)");
  if (!has_values(1)) return false;
  is_finished_ = true;
  return true;
}

// Numbers

template <typename Number>
bool PickleMachine::push_integer() {
  Number number = 0;
  return read(number) && push(Value::integer(number));
}

template <typename Length>
bool PickleMachine::push_long() {
  Length length = 0;
  if (!read(length)) return false;
  if (int64_t{length} < 0 || int64_t{length} > UINT8_MAX) {
    return fail(text("a number of ", int64_t{length}, " bytes (expected at most 64 bits)"));
  }
  const char* bytes = input_.take(static_cast<size_t>(length));
  return bytes != nullptr ? push_number({bytes, static_cast<size_t>(length)}) : fail_at_end();
}

// Pushes a two's complement number of any length. Bytes after the eighth may only extend the sign.
bool PickleMachine::push_number(std::string_view little_endian) {
  const bool is_negative = !little_endian.empty() && (little_endian.back() & '\x80') != 0;
  uint64_t bits = is_negative ? ~uint64_t{0} : 0;
  little_endian.copy(reinterpret_cast<char*>(&bits), sizeof(bits));
  for (size_t i = sizeof(bits); i < little_endian.size(); ++i) {
    if (little_endian[i] != (is_negative ? '\xff' : '\0')) {
      return fail(text("a number of ", little_endian.size(), " bytes (expected at most 64 bits)"));
    }
  }
  if (!is_negative) return push(Value::unsigned_integer(bits));
  if (bits >> 63 == 0) return fail("a number below -2^63 (expected at most 64 bits)");
  return push(Value::integer(static_cast<int64_t>(bits)));
}

bool PickleMachine::push_float() {
  uint64_t big_endian = 0;
  if (!read(big_endian)) return false;
  uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) bits = bits << 8 | (big_endian >> 8 * i & 0xff);
  return push({ValueKind::kFloat, bits});
}

// Strings and bytes

template <typename Length>
bool PickleMachine::push_string() {
  Length length{};
  Value made;
  if (!read(length)) return false;
  if (length <= ByteReader::kMaxTakeBytes) {
    const char* bytes = input_.take(static_cast<size_t>(length));
    if (bytes == nullptr) return fail_at_end();
    const std::string_view all(bytes, static_cast<size_t>(length));
    if (!is_utf8(all)) return fail("a string is not UTF-8 (expected UTF-8)");
    return check_store(store_.add_string(all, made)) && push(made);
  }
  if (!read_text(length)) return false;
  if (!is_utf8(text_)) return fail("a string is not UTF-8 (expected UTF-8)");
  return check_store(store_.add_string(text_, made)) && push(made);
}

// Reads `length` bytes into text_. The buffer grows with the bytes that arrive, not with the
// announced length, and stays within the store's limit.
bool PickleMachine::read_text(uint64_t length) {
  text_.clear();
  while (text_.size() < length) {
    const std::string_view part = input_.take_some(length - text_.size());
    if (part.empty()) return fail_at_end();
    if (!check_store(store_.can_hold(text_.size() + part.size()))) return false;
    text_ += part;
  }
  return true;
}

template <typename Length>
bool PickleMachine::push_bytes() {
  Length length{};
  if (!read(length)) return false;
  for (uint64_t left = length; left > 0;) {
    const std::string_view part = input_.take_some(left);
    if (part.empty()) return fail_at_end();
    left -= part.size();
  }
  return push({.kind = ValueKind::kBytes});
}

// Containers

bool PickleMachine::push_mark() {
  if (marks_.size() == kMaxMarks) {
    return fail(text("more than ", kMaxMarks, " containers are open (expected fewer)"));
  }
  marks_.push_back(stack_.size());
  return true;
}

bool PickleMachine::push_empty_list() {
  Value made;
  return check_store(store_.add_list(made)) && push(made);
}

bool PickleMachine::push_empty_dict() {
  Value made;
  return check_store(store_.add_dict(made)) && push(made);
}

template <size_t kCount>
bool PickleMachine::make_tuple() {
  Value made;
  if (!has_values(kCount)) return false;
  const size_t first = stack_.size() - kCount;
  if (!check_store(store_.add_tuple(stack_.from(first), made))) return false;
  stack_.truncate(first);
  return push(made);
}

bool PickleMachine::make_tuple_from_mark() {
  Value made;
  size_t first = 0;
  if (!pop_mark(first)) return false;
  if (!check_store(store_.add_tuple(stack_.from(first), made))) return false;
  stack_.truncate(first);
  return push(made);
}

bool PickleMachine::make_list_from_mark() {
  Value made;
  size_t first = 0;
  if (!pop_mark(first) || !check_store(store_.add_list(made))) return false;
  if (!check_store(store_.append(made, stack_.from(first)))) return false;
  stack_.truncate(first);
  return push(made);
}

bool PickleMachine::make_dict_from_mark() {
  Value made;
  size_t first = 0;
  if (!pop_mark(first) || !check_store(store_.add_dict(made))) return false;
  if ((stack_.size() - first) % 2 != 0) return fail("a key has no value (expected pairs)");
  if (!check_store(store_.set_items(made, stack_.from(first)))) return false;
  stack_.truncate(first);
  return push(made);
}

bool PickleMachine::append_one() {
  return has_values(2) && append_to_list_below(stack_.size() - 1);
}

bool PickleMachine::append_from_mark() {
  size_t first = 0;
  return pop_mark(first) && append_to_list_below(first);
}

bool PickleMachine::append_to_list_below(size_t first) {
  if (first == 0 || stack_[first - 1].kind != ValueKind::kList) {
    return fail(text("items are added to ", first == 0 ? "nothing" : name(stack_[first - 1].kind),
                     " (expected a list)"));
  }
  if (!check_store(store_.append(stack_[first - 1], stack_.from(first)))) return false;
  stack_.truncate(first);
  return true;
}

bool PickleMachine::set_one() { return has_values(3) && set_in_dict_below(stack_.size() - 2); }

bool PickleMachine::set_from_mark() {
  size_t first = 0;
  return pop_mark(first) && set_in_dict_below(first);
}

bool PickleMachine::set_in_dict_below(size_t first) {
  if (first == 0 || stack_[first - 1].kind != ValueKind::kDict) {
    return fail(text("items are set in ", first == 0 ? "nothing" : name(stack_[first - 1].kind),
                     " (expected a dict)"));
  }
  if ((stack_.size() - first) % 2 != 0) return fail("a key has no value (expected pairs)");
  if (!check_store(store_.set_items(stack_[first - 1], stack_.from(first)))) return false;
  stack_.truncate(first);
  return true;
}

// Memo

bool PickleMachine::memoize() { return put_at(memo_.size()); }

template <typename Index>
bool PickleMachine::put() {
  Index index{};
  return read(index) && put_at(index);
}

// Writers number memo entries consecutively, so an index is smaller than the byte offset. Larger
// indexes are rejected, because they would make the memo larger than the file.
bool PickleMachine::put_at(uint64_t index) {
  if (!has_values(1)) return false;
  if (index >= input_.offset()) {
    return fail(text("the memo's index is ", index, " (expected less than the byte offset)"));
  }
  if (index >= memo_.size()) {
    const size_t count = static_cast<size_t>(index) + 1;
    if (!check_store(store_.charge((count - memo_.size()) * sizeof(Value)))) return false;
    memo_.resize(static_cast<size_t>(index), kUnset);
    memo_.push_back(stack_.back());
    return true;
  }
  memo_[static_cast<size_t>(index)] = stack_.back();
  return true;
}

template <typename Index>
bool PickleMachine::get() {
  Index index{};
  if (!read(index)) return false;
  if (index >= memo_.size() || memo_[index] == kUnset) {
    return fail(text("the memo has nothing at index ", uint64_t{index},
                     " (expected one that was put there before)"));
  }
  return push(memo_[index]);
}

// Stack

// Removes the top value. Like Python, removes the newest mark instead if it is on top of the stack.
bool PickleMachine::pop() {
  if (!marks_.empty() && marks_.back() == stack_.size()) {
    marks_.pop_back();
    return true;
  }
  if (!has_values(1)) return false;
  stack_.truncate(stack_.size() - 1);
  return true;
}

bool PickleMachine::discard_to_mark() {
  size_t first = 0;
  if (!pop_mark(first)) return false;
  stack_.truncate(first);
  return true;
}

bool PickleMachine::duplicate() { return has_values(1) && push(Value(stack_.back())); }

bool PickleMachine::pop_mark(size_t& first) {
  if (marks_.empty()) return fail("no mark (expected one below the items)");
  first = marks_.back();
  marks_.pop_back();
  return true;
}

bool PickleMachine::has_values(size_t count) {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor >= count) return true;
  return fail(text("the stack has ", stack_.size() - floor, " values above the newest mark",
                   " (expected at least ", count, ")"));
}

// Input and errors

template <typename Number>
bool PickleMachine::read(Number& number) {
  const char* bytes = input_.take(sizeof(number));
  if (bytes == nullptr) return fail_at_end();
  std::memcpy(&number, bytes, sizeof(number));
  return true;
}

bool PickleMachine::fail(std::string_view problem) {
  failure_ = Status::format(text("pickle, byte ", opcode_offset_, ": ",
                                 opcode_ == nullptr ? "" : text(opcode_->name, ": "), problem));
  return false;
}

bool PickleMachine::fail_at_end() {
  if (!input_.failure().ok()) {
    failure_ = input_.failure();
    return false;
  }
  return fail("the input is truncated (expected more, up to STOP)");
}

// Opcode table

constexpr std::array<PickleMachine::Opcode, 256> PickleOpcodes::make() {
  std::array<Machine::Opcode, 256> table{};
  const auto set = [&table](uint8_t byte, std::string_view name, bool (Machine::*handler)()) {
    table[byte] = {.name = name, .handler = handler, .refusal = {}};
  };
  set('N', "NONE", &Machine::push_none);
  set(0x88, "NEWTRUE", &Machine::push_boolean<true>);
  set(0x89, "NEWFALSE", &Machine::push_boolean<false>);
  set('K', "BININT1", &Machine::push_integer<uint8_t>);
  set('M', "BININT2", &Machine::push_integer<uint16_t>);
  set('J', "BININT", &Machine::push_integer<int32_t>);
  set(0x8a, "LONG1", &Machine::push_long<uint8_t>);
  set(0x8b, "LONG4", &Machine::push_long<int32_t>);
  set('G', "BINFLOAT", &Machine::push_float);
  set(0x8c, "SHORT_BINUNICODE", &Machine::push_string<uint8_t>);
  set('X', "BINUNICODE", &Machine::push_string<uint32_t>);
  set(0x8d, "BINUNICODE8", &Machine::push_string<uint64_t>);
  set('U', "SHORT_BINSTRING", &Machine::push_string<uint8_t>);
  set('T', "BINSTRING", &Machine::push_string<uint32_t>);
  set('C', "SHORT_BINBYTES", &Machine::push_bytes<uint8_t>);
  set('B', "BINBYTES", &Machine::push_bytes<uint32_t>);
  set(0x8e, "BINBYTES8", &Machine::push_bytes<uint64_t>);
  set(0x96, "BYTEARRAY8", &Machine::push_bytes<uint64_t>);
  set('(', "MARK", &Machine::push_mark);
  set(']', "EMPTY_LIST", &Machine::push_empty_list);
  set('}', "EMPTY_DICT", &Machine::push_empty_dict);
  set(')', "EMPTY_TUPLE", &Machine::make_tuple<0>);
  set(0x85, "TUPLE1", &Machine::make_tuple<1>);
  set(0x86, "TUPLE2", &Machine::make_tuple<2>);
  set(0x87, "TUPLE3", &Machine::make_tuple<3>);
  set('t', "TUPLE", &Machine::make_tuple_from_mark);
  set('l', "LIST", &Machine::make_list_from_mark);
  set('d', "DICT", &Machine::make_dict_from_mark);
  set('a', "APPEND", &Machine::append_one);
  set('e', "APPENDS", &Machine::append_from_mark);
  set('s', "SETITEM", &Machine::set_one);
  set('u', "SETITEMS", &Machine::set_from_mark);
  set(0x94, "MEMOIZE", &Machine::memoize);
  set('q', "BINPUT", &Machine::put<uint8_t>);
  set('r', "LONG_BINPUT", &Machine::put<uint32_t>);
  set('h', "BINGET", &Machine::get<uint8_t>);
  set('j', "LONG_BINGET", &Machine::get<uint32_t>);
  set('0', "POP", &Machine::pop);
  set('1', "POP_MARK", &Machine::discard_to_mark);
  set('2', "DUP", &Machine::duplicate);
  set(0x95, "FRAME", &Machine::skip_frame);
  set('.', "STOP", &Machine::finish);
  add_refused(table);
  return table;
}

constexpr void PickleOpcodes::add_refused(std::array<Machine::Opcode, 256>& table) {
  const auto refuse = [&table](uint8_t byte, std::string_view name, std::string_view why) {
    table[byte] = {.name = name, .handler = nullptr, .refusal = why};
  };
  refuse('c', "GLOBAL", kRefusedCall);
  refuse(0x93, "STACK_GLOBAL", kRefusedCall);
  refuse('R', "REDUCE", kRefusedCall);
  refuse('b', "BUILD", kRefusedCall);
  refuse('i', "INST", kRefusedCall);
  refuse('o', "OBJ", kRefusedCall);
  refuse(0x81, "NEWOBJ", kRefusedCall);
  refuse(0x92, "NEWOBJ_EX", kRefusedCall);
  refuse(0x82, "EXT1", kRefusedCall);
  refuse(0x83, "EXT2", kRefusedCall);
  refuse(0x84, "EXT4", kRefusedCall);
  refuse('P', "PERSID", kRefusedCall);
  refuse('Q', "BINPERSID", kRefusedCall);
  refuse(0x97, "NEXT_BUFFER", kRefusedValue);
  refuse(0x98, "READONLY_BUFFER", kRefusedValue);
  refuse(0x8f, "EMPTY_SET", kRefusedValue);
  refuse(0x90, "ADDITEMS", kRefusedValue);
  refuse(0x91, "FROZENSET", kRefusedValue);
  refuse(0x80, "PROTO", "not at the beginning (expected at the beginning only)");
  refuse('I', "INT", kRefusedTextual);
  refuse('L', "LONG", kRefusedTextual);
  refuse('F', "FLOAT", kRefusedTextual);
  refuse('S', "STRING", kRefusedTextual);
  refuse('V', "UNICODE", kRefusedTextual);
  refuse('g', "GET", kRefusedTextual);
  refuse('p', "PUT", kRefusedTextual);
}

constinit const std::array<PickleMachine::Opcode, 256> PickleOpcodes::kTable = make();

}  // namespace ashlar
