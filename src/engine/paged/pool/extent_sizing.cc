// SPDX-License-Identifier: Apache-2.0
//
// Computes extent sizes from the policy, the memory held and the typical block size.
#include "engine/paged/pool/extent_sizing.h"

#include <algorithm>

#include "base/align.h"
#include "base/units.h"

namespace ashlar::paged {
namespace {

// Bounds on the number of extents that all memory is divided into. With the bounds of `balanced`,
// the recorded runs reserve 1.023 times their peak of live bytes and spend 1.0 % of their time in
// the driver. With 160 as both bounds they reserve 1.027 times their peak and spend 0.8 %, with 256
// as both bounds 1.024 times and 1.0 %. With twice as many extents, `fast` reserves 0.3 % less
// memory for 25 % more driver time, and `lean` 0.1 % less for 31 % more. With half as many, `fast`
// reserves 0.7 % more memory and `lean` 0.3 % more (docs/internals/experiments/paged_engine.md).
struct ExtentCountBounds {
  size_t min = 0;
  size_t max = 0;
};

ExtentCountBounds extent_count_bounds(PagedPolicy policy) {
  switch (policy) {
    case PagedPolicy::kFast: return {32, 32};
    case PagedPolicy::kLean: return {1024, 1024};
    case PagedPolicy::kBalanced: break;
  }
  return {160, 320};
}

// Number of extents that a block of the typical size consists of, as far as the bounds allow. This
// value was measured together with the bounds of `balanced`.
constexpr size_t kExtentsPerBlock = 8;

// The target size of an extent for large blocks is at most this. With 32 MiB, the recorded runs
// reserve the same amount of memory for 2 % more driver time; with 128 MiB, they reserve 0.06 %
// more memory.
constexpr size_t kMaxExtentBytes = 64 * kMiB;

// If granules are large, the target size may be this many granules. Devices have granules of at
// most 2 MiB, but replays of implausible sizes use larger ones (replay.cc) to bound the number of
// extents.
constexpr size_t kMaxExtentGranules = 8;

// The last reused extent may exceed the missing memory by a quarter of the request or by 4 MiB,
// whichever is larger. Without this overshoot, the recorded runs reserve 1.2 % more memory; halving
// or doubling either bound changes the mean of their reserved memory by at most 0.01 %.
constexpr size_t kOvershootDivisor = 4;
constexpr size_t kMinOvershootBytes = 4 * kMiB;

}  // namespace

bool ExtentSizing::can_reuse(size_t extent_bytes, bool is_small) const {
  if (is_shareable_) return extent_bytes == shared_extent_bytes(is_small);
  return !is_small || extent_bytes <= small_extent_bytes();
}

size_t ExtentSizing::growth_step_bytes(bool is_small) const {
  if (is_shareable_) return shared_extent_bytes(is_small);
  return is_small ? small_extent_bytes() : granule_bytes_;
}

size_t ExtentSizing::max_growth_bytes(size_t bytes, bool is_small) const {
  const size_t step = is_shareable_ ? shared_extent_bytes(is_small) : small_extent_bytes();
  return bytes + max_overshoot_bytes(bytes) + step + granule_bytes_;
}

size_t ExtentSizing::max_overshoot_bytes(size_t bytes) {
  return std::max(bytes / kOvershootDivisor, kMinOvershootBytes);
}

// Rounds the number of extents to the nearest integer, but at least to 1. If the remainder is less
// than half an extent, the last extent includes the remainder.
size_t ExtentSizing::extent_count(const GrowthRequest& request, size_t new_bytes) const {
  const size_t each = extent_bytes(request);
  return new_bytes == 0 ? 0 : std::max(size_t{1}, (new_bytes + each / 2) / each);
}

std::vector<size_t> ExtentSizing::extent_sizes(const GrowthRequest& request,
                                               size_t new_bytes) const {
  std::vector<size_t> sizes(extent_count(request, new_bytes), extent_bytes(request));
  if (!sizes.empty()) sizes.back() = new_bytes - (sizes.size() - 1) * sizes.front();
  return sizes;
}

size_t ExtentSizing::extent_bytes(const GrowthRequest& request) const {
  if (is_shareable_) return shared_extent_bytes(request.is_small);
  if (request.is_small) return small_extent_bytes();
  const size_t all_bytes = request.held_bytes + request.bytes;
  const ExtentCountBounds bounds = extent_count_bounds(policy_);
  const size_t share = std::clamp(request.typical_block_bytes / kExtentsPerBlock,
                                  all_bytes / bounds.max, all_bytes / bounds.min);
  const size_t most = std::max(kMaxExtentBytes, kMaxExtentGranules * granule_bytes_);
  return round_up(std::clamp(share, small_extent_bytes(), most), granule_bytes_);
}

size_t ExtentSizing::small_extent_bytes() const {
  return round_up(kSmallSegmentBytes, granule_bytes_);
}

size_t ExtentSizing::shared_extent_bytes(bool is_small) const {
  return round_up(sizes_.expandable_granule_bytes(is_small), granule_bytes_);
}

}  // namespace ashlar::paged
