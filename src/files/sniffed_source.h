// SPDX-License-Identifier: Apache-2.0
//
// A source whose first bytes can be looked at before they are read.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "format/byte_stream.h"

namespace ashlar {

class SniffedSource final : public ByteSource {
 public:
  explicit SniffedSource(std::unique_ptr<ByteSource> input) : input_(std::move(input)) {}

  // The next `count` bytes, or fewer where the input ends; valid until the next call.
  Result<std::string_view> peek(size_t count) {
    while (seen_.size() < count) {
      std::string part(count - seen_.size(), '\0');
      const Result<size_t> got = input_->read(part);
      if (!got.ok()) return got.status();
      if (*got == 0) break;
      seen_.append(part, 0, *got);
    }
    return std::string_view(seen_);
  }

  Result<size_t> read(std::span<char> into) override {
    if (seen_.empty()) return input_->read(into);
    const size_t count = seen_.copy(into.data(), into.size());
    seen_.erase(0, count);
    return count;
  }

 private:
  std::unique_ptr<ByteSource> input_;
  std::string seen_;
};

}  // namespace ashlar
