// SPDX-License-Identifier: Apache-2.0
//
// Both edits free the saved allocations when the function ends, and add allocations for the
// backward pass.
#include "analysis/whatif/checkpoints.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "analysis/whatif/backward_nodes.h"

namespace ashlar {
namespace {

bool is_freed_by_backward(const EditedRun& run, const StackPaths& paths, uint32_t allocation) {
  const uint32_t free = run.allocations()[allocation].free;
  return free != kNoOperation && paths.is_of_backward(run.operations()[free]);
}

// Returns the allocations of an invocation that outlive it.
std::vector<uint32_t> survivors_of(const EditedRun& run, const StackPaths& paths,
                                   const Invocation& invocation) {
  std::vector<uint32_t> survivors;
  for (uint32_t i = invocation.first; i < invocation.end; ++i) {
    const Operation& operation = run.operations()[i];
    if (operation.action != TraceAction::kAlloc || !paths.is_of_program(operation)) continue;
    const uint32_t free = run.allocations()[operation.allocation].free;
    if (free == kNoOperation || free >= invocation.end) survivors.push_back(operation.allocation);
  }
  return survivors;
}

// Returns the function's result among the survivors; UINT32_MAX if the backward pass does not free
// it. The last call that allocates is assumed to return the result. That call may also allocate
// statistics or masks, which its own backward node frees. The result is freed earlier, by the
// nodes that use it.
uint32_t result_among(const EditedRun& run, const StackPaths& paths,
                      const std::vector<uint32_t>& survivors) {
  uint32_t result = UINT32_MAX;
  for (size_t i = survivors.size(); i-- > 0;) {
    const uint32_t id = survivors[i];
    if (run.stack_of(id) != run.stack_of(survivors.back())) break;
    if (!is_freed_by_backward(run, paths, id)) return UINT32_MAX;
    const bool is_earlier =
        result == UINT32_MAX || run.allocations()[id].free < run.allocations()[result].free;
    if (is_earlier) result = id;
  }
  return result;
}

// The workspaces that libraries keep for the program's thread. Libraries keep one per thread, so
// the autograd thread allocates its own when it repeats the call that allocated one. A call is
// identified by its innermost frame.
class ThreadWorkspaces {
 public:
  ThreadWorkspaces(const EditedRun& run, const StackPaths& paths) : run_(run), paths_(paths) {
    const Categories& categories = training_of(run.recording()).categories;
    for (uint32_t i = 0; i < run.allocations().size(); ++i) {
      const EditedAllocation& each = run.allocations()[i];
      if (each.free != kNoOperation || each.begin == kNoOperation) continue;
      const Operation& begin = run.operations()[each.begin];
      if (paths.is_of_backward(begin)) {
        backward_sizes_.insert(each.bytes);
      } else if (paths.is_of_program(begin) &&
                 categories.of(each.recorded) == Category::kWorkspaces) {
        by_call_[call_of(begin)].push_back(i);
        all_.insert(i);
      }
    }
  }

  bool contains(uint32_t allocation) const { return all_.contains(allocation); }

  // Returns the workspaces that the autograd thread must allocate to repeat an operation: those of
  // sizes that it does not have yet. Counts them as allocated.
  std::vector<uint32_t> needed_by(const Operation& operation) {
    std::vector<uint32_t> needed;
    const auto known = by_call_.find(call_of(operation));
    if (known == by_call_.end()) return needed;
    for (const uint32_t id : known->second) {
      if (backward_sizes_.insert(run_.allocations()[id].bytes).second) needed.push_back(id);
    }
    return needed;
  }

 private:
  uint32_t call_of(const Operation& operation) const {
    const std::vector<uint32_t>& path = paths_.of(operation.stack);
    return path.empty() ? 0 : path.back();
  }

  const EditedRun& run_;
  const StackPaths& paths_;
  std::set<size_t> backward_sizes_;
  std::map<uint32_t, std::vector<uint32_t>> by_call_;  // by frame
  std::set<uint32_t> all_;
};

// Adds up the bytes that an edit recomputes or copies.
class IterationBytes {
 public:
  explicit IterationBytes(const EditedRun& run)
      : run_(run), iterations_(training_of(run.recording()).iterations) {}

  void add(const Invocation& invocation, size_t bytes) {
    const uint32_t iteration = iterations_.at(run_.operations()[invocation.first].entry);
    total_ += bytes;
    if (iteration == Iterations::kNoIteration || !iterations_.all[iteration].is_complete) return;
    of_complete_ += bytes;
  }

  size_t total() const { return total_; }
  size_t per_iteration() const {
    const size_t count = iterations_.complete_count();
    return count == 0 ? total_ : of_complete_ / count;
  }

 private:
  const EditedRun& run_;
  const Iterations& iterations_;
  size_t total_ = 0;
  size_t of_complete_ = 0;  // of complete iterations
};

// Repeats invocations in the backward pass.
class Recomputer {
 public:
  Recomputer(EditedRun& run, const StackPaths& paths)
      : run_(run), paths_(paths), changes_(run), workspaces_(run, paths), bytes_(run) {}

  void add(const Invocation& invocation) {
    const std::vector<uint32_t> saved = saved_by(run_, paths_, invocation);
    if (saved.empty()) return;
    ++effect_.invocation_count;
    effect_.allocation_count += saved.size();
    uint32_t first_free = kNoOperation;
    uint32_t last_begin = 0;
    for (const uint32_t id : saved) {
      first_free = std::min(first_free, run_.allocations()[id].free);
      last_begin = std::max(last_begin, run_.allocations()[id].begin);
    }
    repeat({invocation.first, last_begin + 1}, begin_of_node(run_, paths_, first_free), saved);
    for (const uint32_t id : saved) changes_.free_before(invocation.end, id);
  }

  EditEffect finish() {
    effect_.recomputed_bytes = bytes_.total();
    effect_.recomputed_bytes_per_iteration = bytes_.per_iteration();
    changes_.apply();
    return effect_;
  }

 private:
  // Repeats operations before `position`. Recomputation stops at the last saved allocation; the
  // temporaries that are live then are freed.
  void repeat(const Invocation& repeated, uint32_t position, const std::vector<uint32_t>& saved) {
    std::map<uint32_t, uint32_t> live;  // from recorded to repeated allocations
    for (uint32_t i = repeated.first; i < repeated.end; ++i) {
      const Operation& operation = run_.operations()[i];
      if (operation.action == TraceAction::kAlloc && paths_.is_of_program(operation)) {
        for (const uint32_t workspace : workspaces_.needed_by(operation)) {
          changes_.allocate_before(position, workspace);
        }
        if (workspaces_.contains(operation.allocation)) continue;
        live[operation.allocation] = changes_.allocate_before(position, operation.allocation);
        bytes_.add(repeated, run_.allocations()[operation.allocation].bytes);
      } else if (operation.action == TraceAction::kFreeRequested) {
        const auto freed = live.find(operation.allocation);
        if (freed == live.end()) continue;
        changes_.free_added_before(position, freed->second);
        live.erase(freed);
      }
    }
    for (const auto& [original, added] : live) {
      if (std::binary_search(saved.begin(), saved.end(), original)) {
        changes_.take_over_free(original, added);
      } else {
        changes_.free_added_before(position, added);
      }
    }
  }

  EditedRun& run_;
  const StackPaths& paths_;
  RunChanges changes_;
  ThreadWorkspaces workspaces_;
  IterationBytes bytes_;
  EditEffect effect_;
};

// The frees of all backward passes, which take() removes. Finds the frees of earlier allocations by
// a tree, because the backward passes of many invocations may overlap.
class BackwardFrees {
 public:
  BackwardFrees(const EditedRun& run, const StackPaths& paths) : run_(run) {
    for (uint32_t i = 0; i < run.size(); ++i) {
      if (is_free(run, paths, i)) frees_.push_back(i);
    }
    leaf_count_ = std::bit_ceil(std::max<size_t>(frees_.size(), 1));
    earliest_.assign(2 * leaf_count_, kNoOperation);
    for (size_t i = 0; i < frees_.size(); ++i) {
      earliest_[leaf_count_ + i] = run.allocations()[allocation_of(i)].begin;
    }
    for (size_t i = leaf_count_; i-- > 1;) update(i);
    end_of_frees_.assign(run.size() + size_t{1}, run.size());
    for (uint32_t i = run.size(); i-- > 0;) {
      const bool continues =
          is_free(run, paths, i) || run.operations()[i].action == TraceAction::kFreeCompleted;
      end_of_frees_[i] = continues ? end_of_frees_[i + size_t{1}] : i;
    }
  }

  // Returns the first operation from `operation` on that is not a free of a backward pass.
  uint32_t end_of_frees(uint32_t operation) const { return end_of_frees_[operation]; }

  // Removes the frees among the operations [first, end) whose allocation was made before the
  // operation `limit`. Returns the allocations in the order of their frees.
  std::vector<uint32_t> take(uint32_t first, uint32_t end, uint32_t limit) {
    std::vector<uint32_t> taken;
    take_from({.node = 1, .begin = 0, .end = leaf_count_},
              {.begin = index_of(first), .end = index_of(end)}, limit, taken);
    return taken;
  }

 private:
  // The indexes [begin, end) into frees_ below a node of the tree, or to search.
  struct Range {
    size_t node = 0;
    size_t begin = 0;
    size_t end = 0;
  };

  static bool is_free(const EditedRun& run, const StackPaths& paths, uint32_t operation) {
    const Operation& each = run.operations()[operation];
    return each.action == TraceAction::kFreeRequested && paths.is_of_backward(each);
  }
  uint32_t allocation_of(size_t index) const { return run_.operations()[frees_[index]].allocation; }
  size_t index_of(uint32_t operation) const {
    return static_cast<size_t>(std::lower_bound(frees_.begin(), frees_.end(), operation) -
                               frees_.begin());
  }
  void update(size_t node) {
    earliest_[node] = std::min(earliest_[2 * node], earliest_[2 * node + 1]);
  }

  void take_from(const Range& at, const Range& wanted, uint32_t limit,
                 std::vector<uint32_t>& taken) {
    const bool overlaps = at.begin < wanted.end && wanted.begin < at.end;
    if (!overlaps || earliest_[at.node] >= limit) return;
    if (at.end - at.begin == 1) {
      taken.push_back(allocation_of(at.begin));
      earliest_[at.node] = kNoOperation;
      return;
    }
    const size_t middle = at.begin + (at.end - at.begin) / 2;
    take_from({.node = 2 * at.node, .begin = at.begin, .end = middle}, wanted, limit, taken);
    take_from({.node = 2 * at.node + 1, .begin = middle, .end = at.end}, wanted, limit, taken);
    update(at.node);
  }

  const EditedRun& run_;
  std::vector<uint32_t> frees_;  // operations, ascending
  size_t leaf_count_ = 0;
  // A binary tree with node i above nodes 2i and 2i + 1: the first operation that made an
  // allocation whose free is below the node and was not taken.
  std::vector<uint32_t> earliest_;
  std::vector<uint32_t> end_of_frees_;  // for each operation
};

}  // namespace

std::vector<uint32_t> saved_by(const EditedRun& run, const StackPaths& paths,
                               const Invocation& invocation) {
  const std::vector<uint32_t> survivors = survivors_of(run, paths, invocation);
  const uint32_t result = survivors.empty() ? UINT32_MAX : result_among(run, paths, survivors);
  std::vector<uint32_t> saved;
  for (const uint32_t id : survivors) {
    if (id != result && is_freed_by_backward(run, paths, id)) saved.push_back(id);
  }
  std::sort(saved.begin(), saved.end());
  return saved;
}

EditEffect recompute(EditedRun& run, const StackPaths& paths,
                     const std::vector<Invocation>& invocations) {
  Recomputer recomputer(run, paths);
  for (const Invocation& each : invocations) recomputer.add(each);
  EditEffect effect = recomputer.finish();
  effect.found_invocations = invocations.size();
  return effect;
}

// The backward pass of an invocation begins with the first node that frees a saved allocation, and
// ends with the last such node.
EditEffect offload(EditedRun& run, const StackPaths& paths,
                   const std::vector<Invocation>& invocations) {
  EditEffect effect = {.found_invocations = invocations.size()};
  RunChanges changes(run);
  BackwardFrees frees(run, paths);
  IterationBytes bytes(run);
  for (const Invocation& invocation : invocations) {
    const std::vector<uint32_t> saved = saved_by(run, paths, invocation);
    if (saved.empty()) continue;
    ++effect.invocation_count;
    uint32_t first_free = kNoOperation;
    uint32_t last_free = 0;
    for (const uint32_t id : saved) {
      first_free = std::min(first_free, run.allocations()[id].free);
      last_free = std::max(last_free, run.allocations()[id].free);
    }
    const uint32_t begin = begin_of_node(run, paths, first_free);
    const uint32_t end = frees.end_of_frees(last_free + 1);
    for (const uint32_t id : frees.take(begin, end, invocation.end)) {
      const uint32_t position = begin_of_node(run, paths, run.allocations()[id].free);
      changes.take_over_free(id, changes.allocate_before(position, id));
      changes.free_before(invocation.end, id);
      ++effect.allocation_count;
      bytes.add(invocation, run.allocations()[id].bytes);
    }
  }
  effect.offloaded_bytes = bytes.total();
  effect.offloaded_bytes_per_iteration = bytes.per_iteration();
  changes.apply();
  return effect;
}

}  // namespace ashlar
