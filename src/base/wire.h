// SPDX-License-Identifier: Apache-2.0
//
// Little-endian serialization of numbers and strings, for records that other processes and machines
// read. Readers do not trust their input: after truncated or oversized data, WireReader::ok returns
// false, and every further read returns zero or an empty string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace ashlar {

// Appends values to a byte string.
class WireWriter {
 public:
  template <typename Number>
  WireWriter& append_number(Number value) {
    using Unsigned = std::make_unsigned_t<Number>;
    const auto bits = static_cast<Unsigned>(value);
    for (size_t i = 0; i < sizeof(Number); ++i) {
      bytes_.push_back(static_cast<char>((static_cast<uint64_t>(bits) >> (8 * i)) & 255));
    }
    return *this;
  }
  // Appends bytes without a length prefix.
  WireWriter& append_raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  // Appends bytes with a length prefix.
  WireWriter& append_text(std::string_view bytes) {
    return append_number(static_cast<uint32_t>(bytes.size())).append_raw(bytes);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads the values that a WireWriter appended, in the same order. `bytes` must outlive the reader.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : remaining_(bytes) {}

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
    if (bytes > remaining_.size()) {
      is_ok_ = false;
      remaining_ = {};
      return {};
    }
    const std::string_view result = remaining_.substr(0, bytes);
    remaining_.remove_prefix(bytes);
    return result;
  }
  std::string_view text(size_t max_bytes) {
    const auto bytes = number<uint32_t>();
    return raw(bytes > max_bytes ? SIZE_MAX : bytes);
  }
  // Returns whether no read has failed.
  bool ok() const { return is_ok_; }
  // Returns whether no read has failed and no bytes remain.
  bool is_done() const { return is_ok_ && remaining_.empty(); }

 private:
  std::string_view remaining_;
  bool is_ok_ = true;
};

}  // namespace ashlar
