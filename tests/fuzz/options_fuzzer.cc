// SPDX-License-Identifier: Apache-2.0
//
// Parses arbitrary text as allocator options. Accepted text must round-trip.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "config/allocator_options.h"

namespace ashlar {
namespace {

void fuzz(std::string_view text) {
  const Result<AllocatorOptions> options = parse_allocator_options(text);
  if (!options.ok()) {
    ASHLAR_CHECK(options.status().is(StatusKind::kInvalidArgument));
    return;
  }
  const std::string printed = format_allocator_options(*options);
  const Result<AllocatorOptions> again = parse_allocator_options(printed);
  ASHLAR_CHECK(again.ok());
  ASHLAR_CHECK(format_allocator_options(*again) == printed);
}

}  // namespace
}  // namespace ashlar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
