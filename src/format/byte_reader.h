// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a ByteSource through a buffer, with their position. What a file says about its own
// lengths is not believed: only bytes that have arrived are handed out.
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

  // How many bytes were taken: the position of the next one.
  uint64_t offset() const { return base_ + next_; }

  // The next `count` bytes, valid until the next call. Null: the input ends before that, or could
  // not be read (see failure()).
  // REQUIRES: count <= kMostAtOnce.
  const char* take(size_t count) {
    if (end_ - next_ < count && !fill(count)) return nullptr;
    const char* bytes = buffer_.data() + next_;
    next_ += count;
    return bytes;
  }

  // Between one and `most` bytes, as many as are at hand, valid until the next call; empty where
  // take() would be null.
  // REQUIRES: most > 0.
  std::string_view take_some(uint64_t most);

  // What went wrong with the source; ok also at its end.
  const Status& failure() const { return failure_; }

  static constexpr size_t kMostAtOnce = 4096;

 private:
  bool fill(size_t count);

  ByteSource& source_;
  std::vector<char> buffer_;
  uint64_t base_ = 0;  // position of the buffer's first byte
  size_t next_ = 0;
  size_t end_ = 0;
  Status failure_;
};

}  // namespace ashlar
