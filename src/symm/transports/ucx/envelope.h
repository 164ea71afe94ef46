// SPDX-License-Identifier: Apache-2.0
//
// Addresses and keys as bytes for the store. UCX reads its addresses without knowing where they
// end, and believes what they say; so they travel in an envelope with their length, the release
// that wrote them (whose formats differ) and a hash, and are opened into memory that goes on with
// zeroes. That finds accidents: cut short, mixed up, of another release. It does not stop forgers.
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
  uint64_t base = 0;  // kKey: where the region begins, and how long it is
  uint64_t bytes = 0;
  std::vector<char> content{};  // after opening: followed by zeroes
  size_t content_bytes = 0;     // after opening: without them
};

std::string seal(const Envelope& envelope);
// kFormat: not of this kind, or not whole, or not of this release of UCX.
Result<Envelope> open_envelope(EnvelopeKind kind, std::string_view sealed);

}  // namespace ashlar::symm
