// SPDX-License-Identifier: Apache-2.0
//
// Determines the sizes of new extents. Few large extents are mapped quickly; many small ones waste
// less memory when partly used. Extents for large blocks, unless they are shareable, are a fraction
// of the held memory, within fixed limits, which bounds both the number of extents and the waste
// per extent. Immutable and thread safe.
#pragma once

#include <cstddef>
#include <vector>

#include "ashlar/options.h"
#include "engine/size_policy.h"

namespace ashlar::paged {

// The inputs that determine the size of new extents.
struct GrowthRequest {
  size_t bytes = 0;  // size of the block
  bool is_small = false;
  size_t held_bytes = 0;           // memory that the engine holds
  size_t typical_block_bytes = 0;  // typical size of the pool's large blocks
};

class ExtentSizing {
 public:
  // If `is_shareable`, all extents for small blocks have one size, and so have all extents for
  // large blocks, because a handle for another process states one size for all extents of a block.
  ExtentSizing(PagedPolicy policy, size_t granule_bytes, bool is_shareable)
      : policy_(policy),
        granule_bytes_(granule_bytes),
        is_shareable_(is_shareable),
        sizes_(AllocatorOptions{}) {}

  size_t granule_bytes() const { return granule_bytes_; }
  bool is_shareable() const { return is_shareable_; }
  // Whether an idle extent of this size may be mapped for a request.
  bool can_reuse(size_t extent_bytes, bool is_small) const;
  // Returns the unit of growth: the size of new memory is a multiple of it.
  size_t growth_step_bytes(bool is_small) const;
  // Returns the maximum growth of a view for one request that is within the stitch budget.
  size_t max_growth_bytes(size_t bytes, bool is_small) const;
  // Returns the maximum number of bytes by which the last reused extent may exceed the memory that
  // is still missing for a block of `bytes`.
  static size_t max_overshoot_bytes(size_t bytes);

  // The next two functions return the number and the sizes of the extents for `new_bytes` of new
  // memory.
  size_t extent_count(const GrowthRequest& request, size_t new_bytes) const;
  std::vector<size_t> extent_sizes(const GrowthRequest& request, size_t new_bytes) const;

 private:
  size_t extent_bytes(const GrowthRequest& request) const;
  size_t small_extent_bytes() const;
  size_t shared_extent_bytes(bool is_small) const;

  const PagedPolicy policy_;
  const size_t granule_bytes_;
  const bool is_shareable_;
  const SizePolicy sizes_;
};

}  // namespace ashlar::paged
