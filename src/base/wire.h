// SPDX-License-Identifier: Apache-2.0
//
// Numbers and texts one after the other as bytes, little-endian, for records that other processes
// read, perhaps on other machines. Reading believes nothing: what is cut short or too long makes
// the reader not ok, and everything read from then on is zero or empty.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace ashlar {

class WireWriter {
 public:
  template <typename Number>
  WireWriter& number(Number value) {
    using Unsigned = std::make_unsigned_t<Number>;
    const auto bits = static_cast<Unsigned>(value);
    for (size_t i = 0; i < sizeof(Number); ++i) {
      bytes_.push_back(static_cast<char>((static_cast<uint64_t>(bits) >> (8 * i)) & 255));
    }
    return *this;
  }
  // As many bytes as the reader expects by itself.
  WireWriter& raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  // With its length in front.
  WireWriter& text(std::string_view bytes) {
    return number(static_cast<uint32_t>(bytes.size())).raw(bytes);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// `bytes` outlives it.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : left_(bytes) {}

  template <typename Number>
  Number number() {
    const std::string_view from = raw(sizeof(Number));
    uint64_t bits = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      bits |= uint64_t{static_cast<uint8_t>(from[i])} << (8 * i);
    }
    return static_cast<Number>(bits);
  }
  std::string_view raw(size_t bytes) {
    if (bytes > left_.size()) {
      is_ok_ = false;
      left_ = {};
      return {};
    }
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }
  std::string_view text(size_t most_bytes) {
    const auto bytes = number<uint32_t>();
    return raw(bytes > most_bytes ? SIZE_MAX : bytes);
  }
  // Nothing was missing so far.
  bool ok() const { return is_ok_; }
  // Nothing was missing, and nothing is left.
  bool is_done() const { return is_ok_ && left_.empty(); }

 private:
  std::string_view left_;
  bool is_ok_ = true;
};

}  // namespace ashlar
