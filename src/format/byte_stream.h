// SPDX-License-Identifier: Apache-2.0
//
// Where bytes come from and where they go, so that formats know neither files nor compression.
// Implementations are for one thread at a time.
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
  // Fills the beginning of `into` and says how much of it; 0 means that there is no more.
  // REQUIRES: `into` is not empty.
  virtual Result<size_t> read(std::span<char> into) = 0;
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(std::string_view bytes) = 0;
};

// Bytes that are in memory already, and outlive it.
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

// Keeps all it is given.
class StringSink final : public ByteSink {
 public:
  Status write(std::string_view bytes) override {
    text.append(bytes);
    return {};
  }
  std::string text{};
};

}  // namespace ashlar
