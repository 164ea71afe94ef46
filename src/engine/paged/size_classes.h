// How large a block is for a request. Large ones are as large as was asked for, to 512 B: they are
// most of the memory. Small ones above 16 KiB have one of sixteen sizes for each power of two, so
// that what one of them leaves behind fits the next though no size ever comes again. That costs a
// sixteenth of them at most. Without branches: where sizes are random, a processor guesses half of
// those wrong, and each costs more than all of this.
#pragma once

#include <algorithm>
#include <bit>

#include "engine/size_policy.h"

namespace ashlar::paged {

class SizeClasses {
  static constexpr size_t kParts = 16;     // sizes for each power of two
  static constexpr size_t kExactBits = 5;  // up to so many units there is every size
  static constexpr size_t kSmallUnits = kSmallLimitBytes / kMinBlockBytes;
  static constexpr size_t kMostShift = std::bit_width(kSmallUnits - 1) - kExactBits;

 public:
  static constexpr size_t kCount = (2 + kMostShift) * kParts;

  // 0 for 0, and for what is as good as the largest number.
  static size_t block_bytes(size_t requested_bytes) {
    const size_t units = (requested_bytes + kMinBlockBytes - 1) / kMinBlockBytes;
    const size_t shift = units <= kSmallUnits ? shift_of(units) : 0;
    const size_t rest = (kMinBlockBytes << shift) - 1;
    return (requested_bytes + rest) & ~rest;
  }
  // Of a small block: another for each size there is. Less than kCount for any number, also for
  // one that no block has: hits look before anybody has checked what is asked for.
  static size_t class_of(size_t bytes) {
    const size_t units = bytes / kMinBlockBytes;
    const size_t shift = shift_of(units);
    return (((units - 1) >> shift) + shift * kParts) % kCount;
  }

 private:
  // In how many units such sizes come, as a power of two.
  static size_t shift_of(size_t units) {
    return std::max(static_cast<size_t>(std::bit_width(units - 1)), kExactBits) - kExactBits;
  }
};

}  // namespace ashlar::paged
