// SPDX-License-Identifier: Apache-2.0
//
// Collects sequences of operations with the same callers, then splits them into invocations.
#include "analysis/whatif/invocations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ashlar {
namespace {

constexpr uint32_t kOutside = UINT32_MAX;

// Numbers stacks by the callers of the function. Returns kOutside if it is not on the stack.
class CallerIndex {
 public:
  CallerIndex(const EditedRun& run, const StackPaths& paths, const FrameSet& function)
      : frames_(run.recording().snapshot().tables.frames), paths_(paths), function_(function) {}

  uint32_t of(StackId stack) {
    const auto [known, is_new] = by_stack_.try_emplace(stack, kOutside);
    if (is_new) known->second = number_of(paths_.of(stack));
    return known->second;
  }

 private:
  // The callers, and the name of the function, because a range of lines may have several functions.
  using Key = std::pair<std::vector<uint32_t>, std::string>;

  uint32_t number_of(const std::vector<uint32_t>& path) {
    const auto called =
        std::find_if(path.begin(), path.end(), [this](uint32_t frame) { return function_[frame]; });
    if (called == path.end()) return kOutside;
    Key key = {{path.begin(), called}, frames_[*called].name};
    return by_callers_.try_emplace(std::move(key), static_cast<uint32_t>(by_callers_.size()))
        .first->second;
  }

  const std::vector<Frame>& frames_;
  const StackPaths& paths_;
  const FrameSet& function_;
  std::map<StackId, uint32_t> by_stack_;
  std::map<Key, uint32_t> by_callers_;
};

// Consecutive operations [first, end) of the program with the same callers of the function.
struct CallSequence {
  uint32_t callers = kOutside;
  uint32_t first = 0;
  uint32_t end = 0;
  std::vector<uint32_t> allocs{};  // operations
};

// Returns the indexes of the allocations with which the second and later calls of a sequence begin.
std::vector<size_t> begins_of_calls(const std::vector<StackId>& stacks) {
  const StackId first = stacks.front();
  const StackId last = stacks.back();
  std::vector<size_t> begins;
  if (first != last) {
    for (size_t i = 1; i < stacks.size(); ++i) {
      if (stacks[i - 1] == last && stacks[i] == first) begins.push_back(i);
    }
    return begins;
  }
  // Between two calls are the last allocations of one and the first of the next.
  const auto is_other = [first](StackId stack) { return stack != first; };
  const auto head = std::find_if(stacks.begin(), stacks.end(), is_other) - stacks.begin();
  const auto tail = std::find_if(stacks.rbegin(), stacks.rend(), is_other) - stacks.rbegin();
  const auto both = static_cast<size_t>(head + tail);
  const size_t end = stacks.size() - std::min(stacks.size(), static_cast<size_t>(tail));
  size_t count = 0;  // of the preceding allocations with that stack
  for (auto i = static_cast<size_t>(head); i < end; ++i) {
    if (!is_other(stacks[i])) {
      ++count;
      continue;
    }
    if (count == both) begins.push_back(i - static_cast<size_t>(head));
    count = 0;
  }
  return begins;
}

void add_invocations(const EditedRun& run, const CallSequence& sequence,
                     std::vector<Invocation>& invocations) {
  if (sequence.allocs.empty()) return;
  std::vector<StackId> stacks;
  for (const uint32_t alloc : sequence.allocs) stacks.push_back(run.operations()[alloc].stack);
  uint32_t begin = sequence.first;
  for (const size_t next : begins_of_calls(stacks)) {
    invocations.push_back({begin, sequence.allocs[next]});
    begin = sequence.allocs[next];
  }
  // Edits insert operations at the end, which must not separate a free from its completion.
  uint32_t end = sequence.end;
  while (end < run.size() && run.operations()[end].action == TraceAction::kFreeCompleted) ++end;
  invocations.push_back({begin, end});
}

}  // namespace

std::vector<Invocation> find_invocations(const EditedRun& run, const StackPaths& paths,
                                         const FrameSet& function) {
  CallerIndex callers(run, paths, function);
  std::vector<Invocation> invocations;
  std::optional<CallSequence> current;
  for (uint32_t i = 0; i < run.size(); ++i) {
    const Operation& operation = run.operations()[i];
    if (!paths.is_of_program(operation)) continue;
    const uint32_t number = callers.of(operation.stack);
    if (current && current->callers != number) {
      add_invocations(run, *current, invocations);
      current.reset();
    }
    if (number == kOutside) continue;
    if (!current) current = CallSequence{.callers = number, .first = i};
    current->end = i + 1;
    if (operation.action == TraceAction::kAlloc) current->allocs.push_back(i);
  }
  if (current) add_invocations(run, *current, invocations);
  return invocations;
}

}  // namespace ashlar
