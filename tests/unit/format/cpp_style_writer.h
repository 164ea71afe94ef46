// SPDX-License-Identifier: Apache-2.0
//
// Writes pickles like PyTorch's C++ writer: in protocol 2, with all items of a container in one
// batch, with numbered memo entries for equal strings and shared containers, and with addresses as
// signed integers.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "format/value_writer.h"
#include "unit/format/pickle_text.h"

namespace ashlar {

class CppStyleWriter final : public ValueWriter {
 public:
  explicit CppStyleWriter(ByteSink& sink) : ValueWriter(sink) { out_.put("\x80\x02"); }

  void begin_list() override { begin("]("); }
  void end_list() override { end('e'); }
  void begin_dict() override { begin("}("); }
  void end_dict() override { end('u'); }
  void key(std::string_view name) override { string(name); }
  void key(Key name) override { string(name); }

  void integer(int64_t value) override {
    if (value >= 0 && value <= UINT8_MAX) {
      out_.put("K" + pickle::little_endian(static_cast<uint8_t>(value)));
    } else if (value >= 0 && value <= UINT16_MAX) {
      out_.put("M" + pickle::little_endian(static_cast<uint16_t>(value)));
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      out_.put("J" + pickle::little_endian(static_cast<int32_t>(value)));
    } else {
      out_.put("\x8a\x08" + pickle::little_endian(value));
    }
  }
  void unsigned_integer(uint64_t value) override { integer(static_cast<int64_t>(value)); }
  void floating_point(double value) override {
    const std::string bytes = pickle::little_endian(value);
    out_.put("G" + std::string(bytes.rbegin(), bytes.rend()));
  }
  void boolean(bool value) override { out_.put(value ? '\x88' : '\x89'); }
  void string(std::string_view value) override {
    const auto [place, is_new] = strings_.try_emplace(std::string(value), memo_count_);
    if (!is_new) return get(place->second);
    out_.put(pickle::string(value));
    put();
  }
  void string(Key word) override { string(ashlar::key_text(word)); }
  void pool(PoolId value) override {
    unsigned_integer(value.capture);
    unsigned_integer(value.user);
    out_.put('\x86');
  }
  bool reuse(SharedKind kind, uint32_t index) override {
    const std::pair<int, uint32_t> id(static_cast<int>(kind), index);
    if (const auto known = shared_.find(id); known != shared_.end()) {
      get(known->second);
      return true;
    }
    next_ = id;
    return false;
  }
  Status finish() override {
    out_.put('.');
    return out_.finish();
  }

 private:
  static constexpr std::pair<int, uint32_t> kNothing = {-1, 0};

  void begin(std::string_view opcodes) {
    out_.put(opcodes);
    open_.push_back(std::exchange(next_, kNothing));
  }
  // Ends a container. A shared container is memoized when it is complete.
  void end(char opcode) {
    out_.put(opcode);
    if (open_.back() != kNothing) {
      shared_[open_.back()] = memo_count_;
      put();
    }
    open_.pop_back();
  }
  void put() {
    const uint32_t index = memo_count_++;
    if (index <= UINT8_MAX) {
      out_.put("q" + pickle::little_endian(static_cast<uint8_t>(index)));
    } else {
      out_.put("r" + pickle::little_endian(index));
    }
  }
  void get(uint32_t index) {
    if (index <= UINT8_MAX) {
      out_.put("h" + pickle::little_endian(static_cast<uint8_t>(index)));
    } else {
      out_.put("j" + pickle::little_endian(index));
    }
  }

  uint32_t memo_count_ = 0;
  std::map<std::string, uint32_t> strings_;
  std::map<std::pair<int, uint32_t>, uint32_t> shared_;
  std::pair<int, uint32_t> next_ = kNothing;
  std::vector<std::pair<int, uint32_t>> open_;
};

}  // namespace ashlar
