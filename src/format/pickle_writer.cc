// SPDX-License-Identifier: Apache-2.0
//
// Writes the opcodes, and keeps the memo of strings and shared values.
#include "format/pickle_writer.h"

#include <bit>
#include <utility>

namespace ashlar {
namespace {

// Number of items per batch, as in Python's pickler. PyTorch's viewer fails on batches of 120,000
// items.
constexpr uint32_t kBatchItems = 1000;

template <typename Number>
void put_little_endian(ByteWriter& out, Number number) {
  out.put(std::string_view(reinterpret_cast<const char*>(&number), sizeof(number)));
}

}  // namespace

PickleWriter::PickleWriter(ByteSink& sink) : ValueWriter(sink) {
  key_memo_.fill(kNotInMemo);
  out_.put("\x80\x04");
}

Status PickleWriter::finish() {
  out_.put('.');
  return out_.finish();
}

void PickleWriter::begin(Container container) {
  begin_value();
  out_.put(container.opcode);
  if (next_shared_) memo_slot(*std::exchange(next_shared_, std::nullopt)) = put_memoize();
  open_.push_back(container);
}

void PickleWriter::end() {
  if (open_.back().item_count > 0) out_.put(open_.back().close);
  open_.pop_back();
}

void PickleWriter::begin_item() {
  Container& container = open_.back();
  if (container.item_count == kBatchItems) {
    out_.put(container.close);
    container.item_count = 0;
  }
  if (container.item_count++ == 0) out_.put('(');
}

void PickleWriter::begin_value() {
  if (!open_.empty() && open_.back().close == 'e') begin_item();
}

void PickleWriter::key(std::string_view name) {
  begin_item();
  put_string(name);
}

void PickleWriter::key(Key name) {
  begin_item();
  put_key(name);
}

void PickleWriter::integer(int64_t value) {
  begin_value();
  put_number(value);
}

void PickleWriter::unsigned_integer(uint64_t value) {
  begin_value();
  if (value >> 63 == 0) return put_number(static_cast<int64_t>(value));
  out_.put("\x8a\x09");
  put_little_endian(out_, value);
  out_.put('\0');
}

// Chooses the same opcode as Python's pickler: BININT1, BININT2, BININT or LONG1.
void PickleWriter::put_number(int64_t value) {
  if (value >= 0 && value <= UINT8_MAX) {
    out_.put('K');
    put_little_endian(out_, static_cast<uint8_t>(value));
  } else if (value >= 0 && value <= UINT16_MAX) {
    out_.put('M');
    put_little_endian(out_, static_cast<uint16_t>(value));
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    out_.put('J');
    put_little_endian(out_, static_cast<int32_t>(value));
  } else {
    // The length has room for the value and a sign bit.
    const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
    const size_t length = static_cast<size_t>(std::bit_width(magnitude)) / 8 + 1;
    out_.put('\x8a');
    out_.put(static_cast<char>(length));
    out_.put(std::string_view(reinterpret_cast<const char*>(&value), length));
  }
}

void PickleWriter::floating_point(double value) {
  begin_value();
  out_.put('G');
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) out_.put(static_cast<char>(bits >> shift));
}

void PickleWriter::boolean(bool value) {
  begin_value();
  out_.put(value ? '\x88' : '\x89');
}

void PickleWriter::string(std::string_view value) {
  begin_value();
  put_string(value);
}

void PickleWriter::string(Key word) {
  begin_value();
  put_key(word);
}

void PickleWriter::pool(PoolId value) {
  begin_value();
  put_number(static_cast<int64_t>(value.capture));
  put_number(static_cast<int64_t>(value.user));
  out_.put('\x86');
}

bool PickleWriter::reuse(SharedKind kind, uint32_t index) {
  const uint32_t memo_index = memo_slot({kind, index});
  if (memo_index == kNotInMemo) {
    next_shared_ = {kind, index};
    return false;
  }
  begin_value();
  put_get(memo_index);
  return true;
}

void PickleWriter::put_string(std::string_view value) {
  const auto [place, is_new] = strings_.try_emplace(std::string(value), memo_count_);
  if (!is_new) return put_get(place->second);
  if (value.size() <= UINT8_MAX) {
    out_.put('\x8c');
    put_little_endian(out_, static_cast<uint8_t>(value.size()));
  } else {
    out_.put('X');
    put_little_endian(out_, static_cast<uint32_t>(value.size()));
  }
  out_.put(value);
  put_memoize();
}

void PickleWriter::put_key(Key word) {
  uint32_t& memo_index = key_memo_[static_cast<size_t>(word)];
  if (memo_index != kNotInMemo) return put_get(memo_index);
  put_string(ashlar::key_text(word));
  memo_index = strings_.find(std::string(ashlar::key_text(word)))->second;
}

void PickleWriter::put_get(uint32_t memo_index) {
  if (memo_index <= UINT8_MAX) {
    out_.put('h');
    put_little_endian(out_, static_cast<uint8_t>(memo_index));
  } else {
    out_.put('j');
    put_little_endian(out_, memo_index);
  }
}

uint32_t PickleWriter::put_memoize() {
  out_.put('\x94');
  return memo_count_++;
}

uint32_t& PickleWriter::memo_slot(SharedId id) {
  std::vector<uint32_t>& table = shared_[static_cast<size_t>(id.kind)];
  if (id.index >= table.size()) table.resize(id.index + 1, kNotInMemo);
  return table[id.index];
}

}  // namespace ashlar
