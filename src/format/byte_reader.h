// SPDX-License-Identifier: Apache-2.0
//
// Buffered reading from a ByteSource, with byte offsets. Returns only bytes that have arrived, so
// that lengths announced by a file cause no allocation. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "format/byte_stream.h"

namespace ashlar {

class ByteReader {
 public:
  explicit ByteReader(ByteSource& source);

  // Offset of the next byte in the input.
  uint64_t offset() const { return base_ + next_; }

  // Returns the next `count` bytes, valid until the next call; null if the input ended early or
  // reading failed (see failure()).
  // REQUIRES: count <= kMaxTakeBytes.
  const char* take(size_t count) {
    if (end_ - next_ < count && !fill(count)) return nullptr;
    const char* bytes = buffer_.data() + next_;
    next_ += count;
    return bytes;
  }

  // Returns the buffered bytes, at most `max_bytes`, valid until the next call. Refills the buffer
  // if it is empty. Returns no bytes only at the end of input or on failure (see failure()).
  // REQUIRES: max_bytes > 0.
  std::string_view take_some(uint64_t max_bytes);

  // The error from the source; ok at the end of input.
  const Status& failure() const { return failure_; }

  static constexpr size_t kMaxTakeBytes = 4096;

 private:
  bool fill(size_t count);

  ByteSource& source_;
  std::vector<char> buffer_;
  uint64_t base_ = 0;  // offset of buffer_[0] in the input
  size_t next_ = 0;
  size_t end_ = 0;
  Status failure_;
};

}  // namespace ashlar
