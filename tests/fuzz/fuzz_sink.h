// SPDX-License-Identifier: Apache-2.0
//
// What the fuzzers of formats share: a sink, and limits small enough that a leak of memory beyond
// them is seen.
#pragma once

#include <string>
#include <string_view>

#include "format/byte_stream.h"
#include "format/value_store.h"

namespace ashlar {

inline constexpr ReadLimits kFuzzLimits = {.value_bytes = size_t{16} << 20};

class FuzzSink final : public ByteSink {
 public:
  Status write(std::string_view bytes) override {
    text += bytes;
    return {};
  }
  std::string text;
};

}  // namespace ashlar
