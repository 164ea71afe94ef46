// SPDX-License-Identifier: Apache-2.0
//
// Searches the indexes, and decides whether the best fit may serve the request.
#include "engine/classic/free_pool.h"

#include <tuple>

namespace ashlar::classic {
namespace {

// Returns the block if it belongs to the stream, else null.
ClassicBlock* of_stream(ClassicBlock* block, StreamId stream) {
  return block != nullptr && block->stream == stream ? block : nullptr;
}

// Returns the block's size including the unmapped space that it could grow into. The search prefers
// blocks that cannot grow, to keep the growable tail of a segment intact.
size_t expandable_bytes(const ClassicBlock& block) {
  const ClassicBlock* next = block.next;
  return block.bytes + (next != nullptr && !next->is_mapped() ? next->bytes : 0);
}

}  // namespace

bool FreePool::BySize::operator()(const ClassicBlock* a, const ClassicBlock* b) const {
  return std::tie(a->stream, a->bytes, a->address) < std::tie(b->stream, b->bytes, b->address);
}

bool FreePool::ByAddress::operator()(const ClassicBlock* a, const ClassicBlock* b) const {
  return std::tie(a->stream, a->address) < std::tie(b->stream, b->address);
}

ClassicBlock* FreePool::take_best_fit(const FitQuery& query, const SizePolicy& sizes) {
  const auto after = [&](const ClassicBlock* block) {
    return of_stream(Blocks::next(block), query.stream);
  };
  ClassicBlock* found = first_of_at_least(query.stream, query.bytes);
  if (query.expandable) {
    while (found != nullptr && found->expandable != nullptr) {
      ClassicBlock* next = after(found);
      if (next == nullptr || expandable_bytes(*next) >= expandable_bytes(*found)) break;
      found = next;
    }
  } else {
    while (found != nullptr && found->expandable != nullptr) found = after(found);
  }
  if (found == nullptr || !sizes.may_serve(found->bytes, query.bytes)) return nullptr;
  blocks_.erase(found);
  return found;
}

void FreePool::insert(ClassicBlock* block) {
  block->free_since = search_count;
  blocks_.insert(block);
}

void FreePool::erase(ClassicBlock* block) { blocks_.erase(block); }
void FreePool::insert_unmapped(ClassicBlock* block) { unmapped_.insert(block); }
void FreePool::erase_unmapped(ClassicBlock* block) { unmapped_.erase(block); }

ClassicBlock* FreePool::first_unmapped(StreamId stream) const {
  const auto is_before = [&](const ClassicBlock& block) { return block.stream < stream; };
  return of_stream(unmapped_.first_not(is_before), stream);
}

ClassicBlock* FreePool::next_unmapped(const ClassicBlock* block) {
  return of_stream(UnmappedBlocks::next(block), block->stream);
}

ClassicBlock* FreePool::largest(StreamId stream) const {
  const auto is_before = [&](const ClassicBlock& block) { return block.stream <= stream; };
  const ClassicBlock* beyond = blocks_.first_not(is_before);
  ClassicBlock* last = beyond == nullptr ? blocks_.last() : Blocks::previous(beyond);
  return of_stream(last, stream);
}

ClassicBlock* FreePool::first_of_at_least(StreamId stream, size_t bytes) const {
  const auto is_before = [&](const ClassicBlock& block) {
    return block.stream != stream ? block.stream < stream : block.bytes < bytes;
  };
  return of_stream(blocks_.first_not(is_before), stream);
}

}  // namespace ashlar::classic
