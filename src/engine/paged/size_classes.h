// SPDX-License-Identifier: Apache-2.0
//
// How large a block is for a request. Large ones are as large as was asked for, to 512 B: they are
// most of the memory. Small ones above 16 KiB have one of sixteen sizes for each power of two, so
// that what one of them leaves behind fits the next though no size ever comes again. That costs a
// sixteenth of them at most.
//
// Hits look up where blocks of a size are, and count nothing. The rest is without branches: where
// sizes are random, a processor guesses half of those wrong, and each costs more than all of this.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "engine/size_policy.h"

namespace ashlar::paged {

class SizeClasses {
  static constexpr size_t kParts = 16;     // sizes for each power of two
  static constexpr size_t kExactBits = 5;  // 2^5 units: up to these there is every size
  static constexpr size_t kSmallUnits = kSmallLimitBytes / kMinBlockBytes;
  static constexpr size_t kMostShift = std::bit_width(kSmallUnits - 1) - kExactBits;

 public:
  static constexpr size_t kExactBytes = kMinBlockBytes << kExactBits;  // and every size up to this
  static constexpr size_t kCount = (2 + kMostShift) * kParts;

  // 0 for 0, and for what is as good as the largest number.
  static size_t block_bytes(size_t requested_bytes) {
    const size_t last = last_unit(requested_bytes);
    const size_t shift = last < kSmallUnits ? shift_of(last) : 0;
    const size_t rest = (kMinBlockBytes << shift) - 1;
    return (requested_bytes + rest) & ~rest;
  }
  // Another for each size there is. REQUIRES: of a small block, or of a request for one.
  static size_t class_of(size_t bytes) { return kClasses[last_unit(bytes)]; }

 private:
  // Counted from 0.
  static constexpr size_t last_unit(size_t bytes) { return (bytes - 1) / kMinBlockBytes; }
  // In how many units such sizes come, as a power of two.
  static constexpr size_t shift_of(size_t last) {
    constexpr size_t kExact = (size_t{1} << kExactBits) - 1;
    return static_cast<size_t>(std::bit_width(last | kExact)) - kExactBits;
  }
  static constexpr std::array<uint8_t, kSmallUnits> make_classes() {
    std::array<uint8_t, kSmallUnits> classes{};
    for (size_t last = 0; last < kSmallUnits; ++last) {
      const size_t shift = shift_of(last);
      classes[last] = static_cast<uint8_t>((last >> shift) + shift * kParts);
    }
    return classes;
  }
  static const std::array<uint8_t, kSmallUnits> kClasses;
};

inline constexpr std::array<uint8_t, SizeClasses::kSmallUnits> SizeClasses::kClasses =
    SizeClasses::make_classes();

}  // namespace ashlar::paged
