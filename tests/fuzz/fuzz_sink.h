// SPDX-License-Identifier: Apache-2.0
//
// A sink and read limits for the format fuzzers. The limits are small, so that excessive memory use
// is detected.
#pragma once

#include <string>
#include <string_view>

#include "format/byte_stream.h"
#include "format/value_store.h"

namespace ashlar {

inline constexpr ReadLimits kFuzzLimits = {.value_bytes = size_t{16} << 20,
                                           .text_bytes = size_t{16} << 20};

class FuzzSink final : public ByteSink {
 public:
  Status write(std::string_view bytes) override {
    text += bytes;
    return {};
  }
  std::string text;
};

}  // namespace ashlar
