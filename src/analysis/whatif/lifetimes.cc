// SPDX-License-Identifier: Apache-2.0
//
// Moves and removes frees. Gradients are the allocations with category kGradients.
#include "analysis/whatif/lifetimes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analysis/whatif/backward_nodes.h"
#include "analysis/whatif/invocations.h"
#include "base/text.h"

namespace ashlar {

EditEffect drop(EditedRun& run, const Selection& selected) {
  EditEffect effect;
  RunChanges changes(run);
  for (uint32_t i = 0; i < run.allocations().size(); ++i) {
    if (!selected.allocations[run.allocations()[i].recorded] || run.is_dropped(i)) continue;
    changes.drop(i);
    ++effect.allocation_count;
  }
  for (uint32_t i = 0; i < run.size(); ++i) {
    if (!selected.contains_failure(run.operations()[i])) continue;
    changes.set_failed_bytes(i, 0);
    ++effect.allocation_count;
  }
  changes.apply();
  return effect;
}

namespace {

bool has_optimizer_entry(const DeviceRecording& recording, EntryRange entries) {
  const StackTraitsTable& traits = training_of(recording).traits;
  for (uint32_t i = entries.first; i < entries.end; ++i) {
    const TraceEntry& entry = recording.trace()[i];
    const StackTraits& stack = traits.of(entry.stack);
    if (entry.action == TraceAction::kAlloc && stack.alloc_site == CallSite::kOptimizer) {
      return true;
    }
    if (entry.action == TraceAction::kFreeRequested && stack.free_site == CallSite::kOptimizer) {
      return true;
    }
  }
  return false;
}

// Returns the ends of the optimizer phases. Adjacent phases count as one. A phase that follows a
// forward pass and has no entry of an optimizer is a zero_grad() at the top of the loop, not a
// step.
Positions ends_of_steps(const EditedRun& run) {
  const std::vector<PhaseSpan>& phases = training_of(run.recording()).iterations.phases;
  std::vector<uint32_t> ends;  // as entries
  bool is_step = true;         // of the current optimizer phases
  for (size_t i = 0; i < phases.size(); ++i) {
    if (phases[i].phase != Phase::kOptimizer) {
      is_step = phases[i].phase == Phase::kBackward;
      continue;
    }
    is_step = is_step || has_optimizer_entry(run.recording(), phases[i].entries);
    const bool continues = i + 1 < phases.size() && phases[i + 1].phase == Phase::kOptimizer;
    if (is_step && !continues) ends.push_back(phases[i].entries.end);
  }
  Positions positions;
  auto next = ends.begin();
  for (uint32_t i = 0; i < run.size() && next != ends.end(); ++i) {
    if (run.operations()[i].entry < *next) continue;
    positions.push_back(i);
    while (next != ends.end() && *next <= run.operations()[i].entry) ++next;
  }
  if (next != ends.end()) positions.push_back(run.size());
  return positions;
}

// Returns the positions at which the program leaves the line or, if not `on_leaving`, enters it.
Positions changes_of_line(const EditedRun& run, const StackPaths& paths, const FrameSet& line,
                          bool on_leaving) {
  Positions positions;
  std::map<StackId, bool> known;
  bool was_inside = false;
  for (uint32_t i = 0; i < run.size(); ++i) {
    const Operation& operation = run.operations()[i];
    if (!paths.is_of_program(operation)) continue;
    const auto [found, is_new] = known.try_emplace(operation.stack, false);
    if (is_new) {
      const std::vector<uint32_t>& path = paths.of(operation.stack);
      found->second =
          std::any_of(path.begin(), path.end(), [&](uint32_t frame) { return line[frame]; });
    }
    const bool is_inside = found->second;
    if (is_inside != was_inside && is_inside != on_leaving) positions.push_back(i);
    was_inside = is_inside;
  }
  return positions;
}

}  // namespace

Result<Positions> find_moments(const EditedRun& run, const StackPaths& paths,
                               const NameResolver& names, const FreeMoment& moment) {
  Positions positions;
  if (moment.kind == FreeMoment::Kind::kStep) {
    positions = ends_of_steps(run);
  } else {
    const Result<FrameSet> frames = names.frames_of(moment.place);
    if (!frames.ok()) return frames.status();
    if (moment.kind == FreeMoment::Kind::kEndOfFunction) {
      for (const Invocation& each : find_invocations(run, paths, *frames)) {
        positions.push_back(each.end);
      }
    } else {
      positions = changes_of_line(run, paths, *frames, moment.kind == FreeMoment::Kind::kLeaveLine);
    }
  }
  if (!positions.empty()) return positions;
  return Status::invalid_argument(
      text("--at: \"", moment.text, "\" does not occur in the recording"));
}

EditEffect free_earlier(EditedRun& run, const Selection& selected, const Positions& moments) {
  EditEffect effect;
  RunChanges changes(run);
  for (uint32_t i = 0; i < run.allocations().size(); ++i) {
    const EditedAllocation& each = run.allocations()[i];
    if (!selected.allocations[each.recorded] || run.is_dropped(i)) continue;
    const uint32_t first = each.begin == kNoOperation ? 0 : each.begin + 1;
    const auto moment = std::lower_bound(moments.begin(), moments.end(), first);
    if (moment == moments.end() || (each.free != kNoOperation && each.free <= *moment)) continue;
    changes.free_before(*moment, i);
    ++effect.allocation_count;
  }
  changes.apply();
  return effect;
}

namespace {

bool is_gradient(const EditedRun& run, uint32_t allocation) {
  const Categories& categories = training_of(run.recording()).categories;
  return run.allocations()[allocation].begin != kNoOperation &&
         categories.of(run.allocations()[allocation].recorded) == Category::kGradients;
}

uint32_t iteration_of(const EditedRun& run, uint32_t operation) {
  return training_of(run.recording()).iterations.at(run.operations()[operation].entry);
}

std::vector<uint32_t> gradients_in_order(const EditedRun& run) {
  std::vector<uint32_t> gradients;
  for (uint32_t i = 0; i < run.allocations().size(); ++i) {
    if (is_gradient(run, i)) gradients.push_back(i);
  }
  std::sort(gradients.begin(), gradients.end(), [&](uint32_t a, uint32_t b) {
    return run.allocations()[a].begin < run.allocations()[b].begin;
  });
  return gradients;
}

}  // namespace

// Gradients are matched with parameters by size: if n gradients of a size are live together in an
// iteration, they are those of n parameters, and the last of them is the first of its parameter if
// fewer than n gradients of that size are kept. A gradient that follows a zero_grad() in the same
// iteration may be that of any parameter. Gradients that are live at the end of the recording count
// as well, because it may end before zero_grad().
EditEffect keep_gradients(EditedRun& run, const StackPaths& paths) {
  EditEffect effect;
  RunChanges changes(run);
  const std::vector<bool> temporaries = find_temporary_frees(run, paths);
  std::map<size_t, size_t> kept;  // number of kept gradients by size
  // The recorded frees of the gradients of the current iteration that are live, by size.
  std::map<size_t, std::multiset<uint32_t>> live;
  uint32_t iteration = Iterations::kNoIteration;
  for (const uint32_t id : gradients_in_order(run)) {
    const EditedAllocation& gradient = run.allocations()[id];
    const uint32_t current = iteration_of(run, gradient.begin);
    if (current != iteration) live.clear();
    iteration = current;
    std::multiset<uint32_t>& frees = live[gradient.bytes];
    frees.erase(frees.begin(), frees.lower_bound(gradient.begin));
    frees.insert(gradient.free);
    if (frees.size() <= kept[gradient.bytes]) {
      const uint32_t end = end_of_node(run, paths, temporaries, gradient.begin);
      if (end >= gradient.free) continue;
      changes.free_before(end, id);
    } else {
      ++kept[gradient.bytes];
      if (gradient.free == kNoOperation) continue;
      changes.keep(id);
    }
    ++effect.allocation_count;
  }
  changes.apply();
  return effect;
}

namespace {

// Whether gradients predate the recording and are live at its end.
bool has_older_gradients(const EditedRun& run) {
  const Categories& categories = training_of(run.recording()).categories;
  return std::any_of(run.allocations().begin(), run.allocations().end(),
                     [&](const EditedAllocation& each) {
                       return each.begin == kNoOperation && each.free == kNoOperation &&
                              categories.of(each.recorded) == Category::kGradients;
                     });
}

// Returns the allocations of the backward passes of each iteration.
std::vector<std::vector<uint32_t>> backward_allocations(const EditedRun& run,
                                                        const StackPaths& paths) {
  std::vector<std::vector<uint32_t>> found(training_of(run.recording()).iterations.all.size());
  for (uint32_t i = 0; i < run.size(); ++i) {
    const Operation& operation = run.operations()[i];
    if (operation.action != TraceAction::kAlloc || !paths.is_of_backward(operation)) continue;
    const uint32_t iteration = iteration_of(run, i);
    if (iteration < found.size()) found[iteration].push_back(operation.allocation);
  }
  return found;
}

}  // namespace

// Each backward pass allocates gradients of the same sizes in the same order, with a varying number
// of other allocations in between. Therefore the sizes of the persistent gradients are searched for
// in order in each other iteration.
Result<EditEffect> set_gradients_to_none(EditedRun& run, const StackPaths& paths) {
  const Iterations& iterations = training_of(run.recording()).iterations;
  const Positions ends = ends_of_steps(run);
  const auto end_after = [&](uint32_t operation) {
    const auto end = std::upper_bound(ends.begin(), ends.end(), operation);
    return end == ends.end() ? run.size() : *end;
  };
  // A gradient persists if it outlives the second step. zero_grad() may free the others after the
  // first step, at the beginning of the next iteration.
  std::vector<uint32_t> persistent;
  for (const uint32_t id : gradients_in_order(run)) {
    const EditedAllocation& gradient = run.allocations()[id];
    const uint32_t second_end = end_after(end_after(gradient.begin));
    if (second_end < run.size() && gradient.free > second_end) persistent.push_back(id);
  }
  if (has_older_gradients(run)) {
    return Status::invalid_argument(
        "--set-to-none: some gradients are older than the recording, so it does not tell when they "
        "were allocated; begin the recording before the first iteration");
  }
  if (persistent.empty()) {
    return Status::invalid_argument(
        "--set-to-none: the recording has no gradients that persist beyond an iteration");
  }
  EditEffect effect;
  RunChanges changes(run);
  const uint32_t first_iteration = iteration_of(run, run.allocations()[persistent.front()].begin);
  for (const uint32_t id : persistent) {
    changes.free_before(end_after(run.allocations()[id].begin), id);
    ++effect.allocation_count;
  }
  const std::vector<std::vector<uint32_t>> allocated = backward_allocations(run, paths);
  for (uint32_t i = 0; i < iterations.all.size(); ++i) {
    if (i == first_iteration) continue;
    auto next = persistent.begin();
    for (const uint32_t id : allocated[i]) {
      if (next == persistent.end()) break;
      if (run.allocations()[id].bytes != run.allocations()[*next].bytes) continue;
      ++next;
      changes.free_before(end_after(run.allocations()[id].begin), id);
      ++effect.allocation_count;
    }
    if (next != persistent.end() && iterations.all[i].is_complete) {
      return Status::invalid_argument(
          text("--set-to-none: the gradients of iteration ", i + 1,
               " cannot be told apart from other allocations; record the program with "
               "zero_grad(set_to_none=True) instead"));
    }
  }
  changes.apply();
  return effect;
}

}  // namespace ashlar
