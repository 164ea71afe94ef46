// SPDX-License-Identifier: Apache-2.0
//
// Nodes are recognized by their allocations, so a node that allocates nothing is merged with the
// node before it.
#include "analysis/whatif/backward_nodes.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace ashlar {
namespace {

bool is_free(const Operation& operation) {
  return operation.action == TraceAction::kFreeRequested ||
         operation.action == TraceAction::kFreeCompleted;
}

// Operations that say nothing about nodes: those of segments, and completed frees.
bool is_neutral(const Operation& operation) {
  return operation.action != TraceAction::kAlloc && operation.action != TraceAction::kFreeRequested;
}

// Assumed maximum number of operations of a node. Bounds the time for crafted files.
constexpr uint32_t kMaxNodeOperations = 4096;

// Returns the operation that allocated what `free` frees; 0 if it predates the recording.
uint32_t begin_of_freed(const EditedRun& run, uint32_t free) {
  const uint32_t begin = run.allocations()[run.operations()[free].allocation].begin;
  return begin == kNoOperation ? 0 : begin;
}

// Walks back over one node, first over its last frees, then over its allocations. A free among the
// allocations is that of a temporary of the node, or one of the last frees of the node before. Only
// the position of the freed allocation distinguishes them, so frees are open until it is reached.
class NodeWalk {
 public:
  NodeWalk(const EditedRun& run, const StackPaths& paths, uint32_t free)
      : run_(run), paths_(paths), at_(free), begin_(free) {}

  uint32_t find_begin() {
    const uint32_t limit = at_ - std::min(at_, kMaxNodeOperations);
    while (at_ > limit && step_over_free()) {
    }
    while (at_ > limit && (!other_begin_ || !frees_.empty()) && step_over_node()) {
    }
    // Frees whose allocation was not reached are not those of temporaries.
    if (!frees_.empty()) return frees_.front().next_begin;
    return other_begin_.value_or(begin_);
  }

 private:
  // A free whose allocation was not reached yet.
  struct OpenFree {
    uint32_t alloc = 0;       // the operation that allocated
    uint32_t next_begin = 0;  // where the node begins if the free belongs to the node before
  };

  const Operation& previous() const { return run_.operations()[at_ - 1]; }

  bool step_over_free() {
    if (!is_neutral(previous())) {
      if (!is_free(previous()) || !paths_.is_of_backward(previous())) return false;
      begin_ = at_ - 1;
    }
    --at_;
    return true;
  }

  bool step_over_node() {
    if (!is_neutral(previous())) {
      if (!paths_.is_of_backward(previous())) return false;
      if (is_free(previous())) {
        const uint32_t alloc = begin_of_freed(run_, at_ - 1);
        // Lifetimes of temporaries are nested. A free of an earlier allocation shows that the open
        // frees of later allocations belong to the node before.
        const auto other = std::upper_bound(
            frees_.begin(), frees_.end(), alloc,
            [](uint32_t earlier, const OpenFree& each) { return earlier < each.alloc; });
        if (other != frees_.end()) {
          other_begin_ = other->next_begin;
          frees_.erase(other, frees_.end());
        } else if (!other_begin_) {
          frees_.push_back({.alloc = alloc, .next_begin = begin_});
        }
      }
      begin_ = at_ - 1;
    }
    --at_;
    while (!frees_.empty() && frees_.back().alloc == at_) frees_.pop_back();
    return true;
  }

  const EditedRun& run_;
  const StackPaths& paths_;
  uint32_t at_;                          // operations from here on have been stepped over
  uint32_t begin_;                       // the first of them that is not neutral
  std::vector<OpenFree> frees_;          // sorted by allocation, because they are nested
  std::optional<uint32_t> other_begin_;  // set once a free of the node before was found
};

}  // namespace

uint32_t begin_of_node(const EditedRun& run, const StackPaths& paths, uint32_t free) {
  return NodeWalk(run, paths, free).find_begin();
}

// One pass in the order of operations. Of the frees so far, only those matter that free an earlier
// allocation than every later free: the first of them since the temporary was allocated decides.
std::vector<bool> find_temporary_frees(const EditedRun& run, const StackPaths& paths) {
  struct Freed {
    uint32_t free = 0;   // the operation
    uint32_t alloc = 0;  // the operation that allocated
  };
  std::vector<bool> is_temporary(run.size());
  std::vector<Freed> earliest;     // ascending in both fields
  uint32_t begin_of_backward = 0;  // the first of the preceding operations of backward passes
  for (uint32_t i = 0; i < run.size(); ++i) {
    const Operation& operation = run.operations()[i];
    if (is_neutral(operation)) continue;
    if (!paths.is_of_backward(operation)) {
      begin_of_backward = i + 1;
      earliest.clear();
      continue;
    }
    if (!is_free(operation)) continue;
    const uint32_t alloc = begin_of_freed(run, i);
    const auto other = std::partition_point(
        earliest.begin(), earliest.end(), [alloc](const Freed& each) { return each.free < alloc; });
    is_temporary[i] = alloc >= begin_of_backward && i - alloc <= kMaxNodeOperations &&
                      (other == earliest.end() || other->alloc >= alloc);
    while (!earliest.empty() && earliest.back().alloc >= alloc) earliest.pop_back();
    earliest.push_back({.free = i, .alloc = alloc});
  }
  return is_temporary;
}

uint32_t end_of_node(const EditedRun& run, const StackPaths& paths,
                     const std::vector<bool>& temporaries, uint32_t alloc) {
  uint32_t end = alloc + 1;
  bool has_freed = false;
  const uint32_t limit = std::min(run.size() - end, kMaxNodeOperations) + end;
  for (uint32_t at = end; at < limit; ++at) {
    const Operation& operation = run.operations()[at];
    if (is_neutral(operation)) {
      if (is_free(operation) && end == at) end = at + 1;
      continue;
    }
    if (!paths.is_of_backward(operation)) break;
    if (is_free(operation)) {
      has_freed = has_freed || !temporaries[at];
    } else if (has_freed) {
      break;
    }
    end = at + 1;
  }
  return end;
}

}  // namespace ashlar
