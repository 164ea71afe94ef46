// Best fit.
#include "engine/classic/free_pool.h"

#include <tuple>

namespace ashlar::classic {
namespace {

// A block that stands for a position in the order. Its serial is not drawn.
Block key(StreamId stream, size_t bytes, DeviceAddress address) {
  Block block;
  block.stream = stream;
  block.bytes = bytes;
  block.address = address;
  return block;
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
  auto found = first_of_at_least(wanted.stream, wanted.bytes);
  const auto in_stream = [&](Blocks::const_iterator it) {
    return it != blocks_.end() && (*it)->stream == wanted.stream;
  };
  if (!in_stream(found)) return nullptr;
  if ((*found)->expandable != nullptr) {
    if (wanted.expandable) {
      for (auto next = std::next(found); (*found)->expandable != nullptr && in_stream(next) &&
                                         expandable_bytes(**next) < expandable_bytes(**found);
           ++next) {
        found = next;
      }
    } else {
      while (in_stream(found) && (*found)->expandable != nullptr) ++found;
      if (!in_stream(found)) return nullptr;
    }
  }
  Block* block = *found;
  if (!sizes.may_serve(block->bytes, wanted.bytes)) return nullptr;
  blocks_.erase(found);
  return block;
}

void FreePool::insert(Block* block) {
  block->free_since = search_count;
  blocks_.insert(block);
}

void FreePool::erase(Block* block) { blocks_.erase(block); }
void FreePool::insert_unmapped(Block* block) { unmapped_.insert(block); }
void FreePool::erase_unmapped(Block* block) { unmapped_.erase(block); }

FreePool::UnmappedBlocks::const_iterator FreePool::first_unmapped(StreamId stream) const {
  Block lowest = key(stream, 0, {});
  return unmapped_.lower_bound(&lowest);
}

FreePool::Blocks::const_iterator FreePool::largest(StreamId stream) const {
  Block beyond = key(stream, SIZE_MAX, DeviceAddress(UINT64_MAX));
  auto after = blocks_.upper_bound(&beyond);
  if (after == blocks_.begin()) return blocks_.end();
  const auto last = std::prev(after);
  return (*last)->stream == stream ? last : blocks_.end();
}

FreePool::Blocks::const_iterator FreePool::first_of_at_least(StreamId stream, size_t bytes) const {
  Block lowest = key(stream, bytes, {});
  return blocks_.lower_bound(&lowest);
}

}  // namespace ashlar::classic
