// SPDX-License-Identifier: Apache-2.0
//
// Buffered writing to a ByteSink. After the first error nothing more is written, and finish()
// returns that error. Not thread safe.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "format/byte_stream.h"

namespace ashlar {

class ByteWriter {
 public:
  explicit ByteWriter(ByteSink& sink) : sink_(sink) { buffer_.reserve(2 * kFlushBytes); }
  ByteWriter(const ByteWriter&) = delete;
  ByteWriter& operator=(const ByteWriter&) = delete;

  void put(char byte) { buffer_.push_back(byte); }
  void put(std::string_view bytes) {
    buffer_.append(bytes);
    if (buffer_.size() >= kFlushBytes) flush();
  }
  // Writes the number in decimal.
  template <std::integral Number>
  void put_number(Number number) {
    char digits[24];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), number);
    put(std::string_view(digits, static_cast<size_t>(end.ptr - digits)));
  }
  // Writes the shortest decimal text that reads back as the same number. The text always has a
  // fraction or an exponent.
  void put_double(double number) {
    char digits[32];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), number);
    const std::string_view all(digits, static_cast<size_t>(end.ptr - digits));
    put(all);
    if (all.find_first_not_of("-0123456789") == std::string_view::npos) put(".0");
  }

  Status finish() {
    flush();
    return failure_;
  }

 private:
  static constexpr size_t kFlushBytes = size_t{64} << 10;

  void flush() {
    if (failure_.ok() && !buffer_.empty()) failure_ = sink_.write(buffer_);
    buffer_.clear();
  }

  ByteSink& sink_;
  std::string buffer_;
  Status failure_;
};

}  // namespace ashlar
