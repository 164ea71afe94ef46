// SPDX-License-Identifier: Apache-2.0
//
// Finds the free parts of partly used extents.
#include "engine/paged/pool/inactive_split.h"

namespace ashlar::paged {
namespace {

// Adds the parts of a free range that lie in partly used extents. In a plain segment, adds the
// whole range unless it is the whole segment.
void add_free_range(const View& view, size_t begin, size_t end, InactiveSplit& sum) {
  const auto add = [&sum](size_t bytes) {
    if (bytes == 0) return;
    ++sum.count;
    sum.bytes += static_cast<int64_t>(bytes);
  };
  if (view.is_plain) {
    add(end - begin < view.mapped_bytes ? end - begin : 0);
    return;
  }
  const size_t first = view.slot_at(begin);
  const size_t last = view.slot_at(end - 1);
  const bool is_first_partial = view.slot_begin(first) < begin;
  const bool is_last_partial = view.slot_end(last) > end;
  if (first == last) {
    add(is_first_partial || is_last_partial ? end - begin : 0);
    return;
  }
  add(is_first_partial ? view.slot_end(first) - begin : 0);
  add(is_last_partial ? end - view.slot_begin(last) : 0);
}

}  // namespace

void add_inactive(const View& view, InactiveSplits& sums) {
  InactiveSplit& sum = sums[view.is_small ? 1 : 0];
  for (const PagedBlock* block = view.first; block != nullptr;) {
    const size_t begin = view.offset_of(*block);
    size_t end = begin;
    for (; block != nullptr && block->is_free(); block = block->next) end += block->bytes;
    if (end > begin) {
      add_free_range(view, begin, end, sum);
    } else {
      block = block->next;
    }
  }
}

}  // namespace ashlar::paged
