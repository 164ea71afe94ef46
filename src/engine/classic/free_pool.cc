// Best fit.
#include "engine/classic/free_pool.h"

#include <tuple>

namespace ashlar::classic {
namespace {

// The same block, if it is the stream's.
Block* of_stream(Block* block, StreamId stream) {
  return block != nullptr && block->stream == stream ? block : nullptr;
}

// With what it could grow into. The growable tail of a segment is left alone while a block that
// cannot grow serves as well.
size_t expandable_bytes(const Block& block) {
  const Block* next = block.next;
  return block.bytes + (next != nullptr && !next->is_mapped() ? next->bytes : 0);
}

}  // namespace

bool FreePool::BySize::operator()(const Block* a, const Block* b) const {
  return std::tie(a->stream, a->bytes, a->address) < std::tie(b->stream, b->bytes, b->address);
}

bool FreePool::ByAddress::operator()(const Block* a, const Block* b) const {
  return std::tie(a->stream, a->address) < std::tie(b->stream, b->address);
}

Block* FreePool::take_best_fit(const Wanted& wanted, const SizePolicy& sizes) {
  const auto after = [&](const Block* block) {
    return of_stream(Blocks::next(block), wanted.stream);
  };
  Block* found = first_of_at_least(wanted.stream, wanted.bytes);
  if (wanted.expandable) {
    while (found != nullptr && found->expandable != nullptr) {
      Block* next = after(found);
      if (next == nullptr || expandable_bytes(*next) >= expandable_bytes(*found)) break;
      found = next;
    }
  } else {
    while (found != nullptr && found->expandable != nullptr) found = after(found);
  }
  if (found == nullptr || !sizes.may_serve(found->bytes, wanted.bytes)) return nullptr;
  blocks_.erase(found);
  return found;
}

void FreePool::insert(Block* block) {
  block->free_since = search_count;
  blocks_.insert(block);
}

void FreePool::erase(Block* block) { blocks_.erase(block); }
void FreePool::insert_unmapped(Block* block) { unmapped_.insert(block); }
void FreePool::erase_unmapped(Block* block) { unmapped_.erase(block); }

Block* FreePool::first_unmapped(StreamId stream) const {
  const auto is_before = [&](const Block& block) { return block.stream < stream; };
  return of_stream(unmapped_.first_not(is_before), stream);
}

Block* FreePool::next_unmapped(const Block* block) {
  return of_stream(UnmappedBlocks::next(block), block->stream);
}

Block* FreePool::largest(StreamId stream) const {
  const auto is_before = [&](const Block& block) { return block.stream <= stream; };
  const Block* beyond = blocks_.first_not(is_before);
  Block* last = beyond == nullptr ? blocks_.last() : Blocks::previous(beyond);
  return of_stream(last, stream);
}

Block* FreePool::first_of_at_least(StreamId stream, size_t bytes) const {
  const auto is_before = [&](const Block& block) {
    return block.stream != stream ? block.stream < stream : block.bytes < bytes;
  };
  return of_stream(blocks_.first_not(is_before), stream);
}

}  // namespace ashlar::classic
