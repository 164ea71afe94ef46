// SPDX-License-Identifier: Apache-2.0
//
// A source that supports peeking at its first bytes. Not thread safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "format/byte_stream.h"

namespace ashlar {

class PeekableSource final : public ByteSource {
 public:
  explicit PeekableSource(std::unique_ptr<ByteSource> input) : input_(std::move(input)) {}

  // Returns at least the next `count` bytes without consuming them, or fewer at the end of input.
  // The bytes are valid until the next call.
  Result<std::string_view> peek(size_t count) {
    while (buffered_.size() < count) {
      std::string part(count - buffered_.size(), '\0');
      const Result<size_t> got = input_->read(part);
      if (!got.ok()) return got.status();
      if (*got == 0) break;
      buffered_.append(part, 0, *got);
    }
    return std::string_view(buffered_);
  }

  Result<size_t> read(std::span<char> into) override {
    if (buffered_.empty()) return input_->read(into);
    const size_t count = buffered_.copy(into.data(), into.size());
    buffered_.erase(0, count);
    return count;
  }

 private:
  std::unique_ptr<ByteSource> input_;
  std::string buffered_;
};

}  // namespace ashlar
