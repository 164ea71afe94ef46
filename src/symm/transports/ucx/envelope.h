// SPDX-License-Identifier: Apache-2.0
//
// Serializes UCX addresses and region keys for the store. UCX's address parser takes no length and
// does not validate. Addresses and keys are therefore wrapped with their length, the UCX version
// (formats differ between versions) and a hash, and are unwrapped into zero-padded memory. This
// detects truncated, mixed-up and incompatible data, but not forgery.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/status.h"

namespace ashlar::symm {

enum class EnvelopeKind : uint8_t { kAddress = 1, kKey = 2 };

struct Envelope {
  EnvelopeKind kind = EnvelopeKind::kAddress;
  uint64_t base = 0;            // kKey: address of the region
  uint64_t bytes = 0;           // kKey: size of the region
  std::vector<char> content{};  // zero-padded if opened by `open_envelope`
  size_t content_bytes = 0;     // set by `open_envelope`: the size without padding
};

std::string seal(const Envelope& envelope);
// Unwraps the result of `seal`. Returns kFormat if the bytes are damaged, of another kind, or from
// another version of UCX.
Result<Envelope> open_envelope(EnvelopeKind kind, std::string_view sealed);

}  // namespace ashlar::symm
