// SPDX-License-Identifier: Apache-2.0
//
// Rounds requests, and numbers the size classes.
#include "host/pinned_size_policy.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/align.h"

namespace ashlar {
namespace {

// The size classes, unless they are powers of two: for up to eight pages, there is one class per
// page; for larger sizes, there are eight classes per power of two.
constexpr size_t kStepCount = 8;
constexpr size_t kFirstPower = 15;
constexpr size_t kLastPower = 61;
static_assert(size_t{1} << kFirstPower == kStepCount * PinnedSizePolicy::kPageBytes);

}  // namespace

PinnedSizePolicy::PinnedSizePolicy(const AllocatorOptions& options)
    : powers_of_two_(options.pytorch_compatible),
      max_round_bytes_(options.pinned.max_round_bytes.value_or(SIZE_MAX)),
      max_cached_bytes_(options.pinned.max_cached_bytes.value_or(SIZE_MAX)) {}

PinnedFit PinnedSizePolicy::fit(size_t requested_bytes) const {
  const bool rounds = requested_bytes <= std::min(max_round_bytes_, max_cached_bytes_);
  const size_t class_limit = class_bytes(class_of(requested_bytes));
  if (powers_of_two_) return {rounds ? class_limit : requested_bytes, class_limit};

  // Rounding helps reuse only if the rounded block can be cached.
  const size_t page_limit = align_up(requested_bytes, kPageBytes);
  const bool by_class = rounds && is_cacheable(class_limit);
  return {by_class ? class_limit : page_limit,
          requested_bytes + std::max(requested_bytes / 4, kPageBytes)};
}

size_t PinnedSizePolicy::class_of(size_t bytes) const {
  if (powers_of_two_) return static_cast<size_t>(std::bit_width(bytes - 1));
  if (bytes <= kStepCount * kPageBytes) return (bytes - 1) / kPageBytes;
  const size_t power = static_cast<size_t>(std::bit_width(bytes - 1)) - 1;
  const size_t step_bytes = (size_t{1} << power) / kStepCount;
  const size_t step = (bytes - 1 - (size_t{1} << power)) / step_bytes;
  return kStepCount * (1 + power - kFirstPower) + step;
}

size_t PinnedSizePolicy::class_bytes(size_t index) const {
  if (powers_of_two_) return size_t{1} << index;
  const size_t step = index % kStepCount + 1;
  if (index < kStepCount) return step * kPageBytes;
  const size_t power = kFirstPower + index / kStepCount - 1;
  return (size_t{1} << power) + step * ((size_t{1} << power) / kStepCount);
}

size_t PinnedSizePolicy::class_count() const {
  return powers_of_two_ ? kLastPower + 1 : kStepCount * (kLastPower - kFirstPower + 1);
}

}  // namespace ashlar
