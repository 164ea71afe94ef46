// SPDX-License-Identifier: Apache-2.0
//
// Byte sources and sinks. They keep the format code independent of files, sockets and compression.
// Implementations are not thread safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "ashlar/status.h"

namespace ashlar {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to into.size() bytes and returns the count; 0 means end of input.
  // REQUIRES: `into` is not empty.
  virtual Result<size_t> read(std::span<char> into) = 0;
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(std::string_view bytes) = 0;
};

// Reads from memory. `bytes` must outlive the source.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : rest_(bytes) {}
  Result<size_t> read(std::span<char> into) override {
    const size_t count = rest_.copy(into.data(), into.size());
    rest_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view rest_;
};

// Appends all bytes to a string.
class StringSink final : public ByteSink {
 public:
  Status write(std::string_view bytes) override {
    text.append(bytes);
    return {};
  }
  std::string text{};
};

}  // namespace ashlar
