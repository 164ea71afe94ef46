// Blocks that were freed a moment ago, each in the list of its very size: most programs ask for the
// same sizes again. They are not merged with their neighbours until a request comes that none of
// them fits. Not thread safe.
#pragma once

#include <array>
#include <bit>

#include "engine/paged/view.h"
#include "engine/size_policy.h"

namespace ashlar::paged {

class QuickLists {
 public:
  // The block that `take` would give. Null: there is none of that size.
  PagedBlock* find(size_t bytes) const {
    PagedBlock* block = lists_[index_of(bytes)].first;
    return block == nullptr || block->bytes != bytes ? nullptr : block;
  }
  // What becomes of it is the caller's to say.
  PagedBlock* take(size_t bytes) {
    PagedBlock* block = find(bytes);
    if (block != nullptr) list_for(bytes).first = block->list_next;
    return block;
  }
  // False: its list is taken by blocks of another size, and the block must be merged instead.
  bool put(PagedBlock* block) {
    List& list = list_for(block->bytes);
    if (list.first != nullptr && list.first->bytes != block->bytes) return false;
    block->state = BlockState::kQuick;
    block->list_next = list.first;
    list.first = block;
    if (!list.is_marked) mark(list);
    return true;
  }
  // Hands every block to `merge`, and has none afterwards.
  template <typename Merge>
  void flush(const Merge& merge) {
    for (; marked_ != 0; marked_ &= marked_ - 1) {
      List& list = lists_[static_cast<size_t>(std::countr_zero(marked_))];
      for (PagedBlock *block = list.first, *next = nullptr; block != nullptr; block = next) {
        next = block->list_next;
        block->state = BlockState::kFree;
        merge(block);
      }
      list = {};
    }
  }

 private:
  struct List {
    PagedBlock* first = nullptr;  // all are of its size
    bool is_marked = false;       // it may have blocks; a list that is empty again stays so
  };
  static constexpr size_t kListCount = 64;
  static size_t index_of(size_t bytes) {
    return ((bytes / kMinBlockBytes) * 0x9e3779b97f4a7c15ULL) >> 58;
  }
  List& list_for(size_t bytes) { return lists_[index_of(bytes)]; }
  void mark(List& list) {
    list.is_marked = true;
    marked_ |= uint64_t{1} << (&list - lists_.data());
  }

  std::array<List, kListCount> lists_{};
  uint64_t marked_ = 0;  // a bit for each list
};

}  // namespace ashlar::paged
