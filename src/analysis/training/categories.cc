// SPDX-License-Identifier: Apache-2.0
//
// Most rules look at one allocation: its stack, and the phases in which it is allocated and freed.
// Afterwards, gradients and allocations that predate the trace are matched with parameters by size.
//
// The file is long because all rules use the same facts about an allocation.
#include "analysis/training/categories.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/timeline.h"

namespace ashlar {
namespace {

constexpr uint32_t kNever = Allocation::kNoEntry;

using SizeCounts = std::map<size_t, size_t>;  // number of allocations by size in bytes

class CategoryFinder {
 public:
  CategoryFinder(const std::vector<TraceEntry>& trace, const Allocations& allocations,
                 const StackTraitsTable& traits, const Iterations& iterations)
      : trace_(trace),
        all_(allocations.all),
        traits_(traits),
        iterations_(iterations),
        rules_(allocations.all.size(), CategoryRule::kNoRule) {}

  std::vector<CategoryRule> find() {
    index_trace();
    collect_stacks();
    for (uint32_t i = 0; i < all_.size(); ++i) rules_[i] = rule_of(i);
    match_gradients();
    match_setup();
    match_older_than_trace();
    for (uint32_t i = 0; i < all_.size(); ++i) {
      const bool is_unexplained = rules_[i] == CategoryRule::kNoRule && all_[i].predates_trace();
      if (!is_unexplained) continue;
      rules_[i] = traits_of(all_[i]).in_module_call ? CategoryRule::kOlderInModuleCall
                                                    : CategoryRule::kOlderThanRecording;
    }
    return std::move(rules_);
  }

 private:
  // Facts about one allocation of the trace.

  const StackTraits& traits_of(const Allocation& each) const { return traits_.of(each.stack); }
  uint32_t phase_index(uint32_t entry) const { return iterations_.phase_index_at(entry); }
  Phase phase_at(uint32_t entry) const { return iterations_.phases[phase_index(entry)].phase; }

  bool is_freed_in_same_phase(const Allocation& each) const {
    return each.free_entry != kNever &&
           phase_index(each.free_entry) == phase_index(each.alloc_entry);
  }

  // Returns how many iterations begin while the allocation lives.
  size_t crossed_iterations(const Allocation& each) const {
    const auto begun_by = [this](uint32_t entry) {
      return std::partition_point(
                 iterations_.all.begin(), iterations_.all.end(),
                 [entry](const Iteration& it) { return it.entries.first <= entry; }) -
             iterations_.all.begin();
    };
    const uint32_t end = each.free_entry == kNever ? last_entry_ : each.free_entry;
    return static_cast<size_t>(begun_by(end) - begun_by(each.alloc_entry));
  }

  // Whether the program keeps the allocation: to the end, or beyond the next iteration.
  bool is_kept(const Allocation& each) const {
    const bool lives_to_end = each.free_entry == kNever || each.free_entry >= teardown_;
    if (iterations_.all.size() < 2) {
      return lives_to_end && (is_from_setup(each) || each.free_entry != kNever);
    }
    const size_t crossed = crossed_iterations(each);
    return crossed >= 2 || (lives_to_end && each.alloc_entry < iterations_.all[0].entries.first);
  }

  bool is_from_setup(const Allocation& each) const { return each.alloc_entry < first_forward_; }

  // Whether the allocation is a copy of parameters on another device than the model's. A model's
  // own device has only buffers that are freed before the copies are used.
  bool is_replica(const Allocation& each) const {
    if (!traits_of(each).in_replication) return false;
    const auto end =
        std::upper_bound(replication_ends_.begin(), replication_ends_.end(), each.alloc_entry);
    return end == replication_ends_.end() ? each.free_entry == kNever : each.free_entry > *end;
  }

  void index_trace() {
    last_entry_ = trace_.empty() ? 0 : static_cast<uint32_t>(trace_.size() - 1);
    first_forward_ = static_cast<uint32_t>(trace_.size());
    teardown_ = static_cast<uint32_t>(trace_.size());
    for (const PhaseSpan& span : iterations_.phases) {
      if (span.phase == Phase::kOther) continue;
      has_phases_ = true;
      first_forward_ = std::min(first_forward_, span.entries.first);
      teardown_ = span.entries.end;
    }
    if (!iterations_.all.empty()) {
      first_forward_ = std::min(first_forward_, iterations_.all[0].entries.first);
    }

    // A pass ends with its phase or iteration; the next one begins with its inputs.
    next_call_.assign(trace_.size(), kNever);
    follows_call_.assign(trace_.size(), false);
    uint32_t pass_begin = 0;
    uint32_t call = kNever;
    bool in_replication = false;
    for (uint32_t i = 0; i < trace_.size(); ++i) {
      if (trace_[i].action == TraceAction::kAlloc) {
        const bool was_in_replication = in_replication;
        in_replication = traits_.of(trace_[i].stack).in_replication;
        if (was_in_replication && !in_replication) replication_ends_.push_back(i);
      }
      const uint32_t begin =
          std::max(iterations_.phases[phase_index(i)].entries.first, iteration_begin(i));
      if (begin != pass_begin) call = kNever;
      pass_begin = begin;
      const bool is_call =
          trace_[i].action == TraceAction::kAlloc && traits_.of(trace_[i].stack).in_module_call;
      if (is_call && call == kNever) {
        call = i;
        for (uint32_t k = pass_begin; k < i; ++k) next_call_[k] = i;
      }
      follows_call_[i] = call != kNever;
      if (trace_[i].action == TraceAction::kOom) failures_.push_back(i);
    }
  }

  // Returns the begin of the iteration that contains the entry. Between two iterations, returns the
  // end of the first; before all of them, 0.
  uint32_t iteration_begin(uint32_t entry) const {
    const auto after = std::partition_point(
        iterations_.all.begin(), iterations_.all.end(),
        [entry](const Iteration& each) { return each.entries.first <= entry; });
    if (after == iterations_.all.begin()) return 0;
    const EntryRange entries = std::prev(after)->entries;
    return entries.contains(entry) ? entries.first : entries.end;
  }

  // How the allocations with one stack ended.
  struct StackUse {
    uint32_t keeping_iteration = Iterations::kNoIteration;  // the first that kept an allocation
    bool is_kept_repeatedly = false;                        // in several iterations
    bool is_freed_later = false;                            // in an iteration after the first
  };

  void collect_stacks() {
    for (const Allocation& each : all_) {
      if (each.predates_trace()) continue;
      const uint32_t iteration = iterations_.at(each.alloc_entry);
      StackUse& use = uses_[each.stack];
      if (is_kept(each)) {
        if (use.keeping_iteration == Iterations::kNoIteration) {
          use.keeping_iteration = iteration;
        } else if (use.keeping_iteration != iteration) {
          use.is_kept_repeatedly = true;
        }
      } else if (each.free_entry != kNever) {
        use.is_freed_later |= iteration > 0;
      }
    }
  }

  // Rules for one allocation.

  CategoryRule rule_of(uint32_t id) {
    const Allocation& each = all_[id];
    const StackTraits& traits = traits_of(each);
    if (traits.in_workspace_function) return CategoryRule::kWorkspaceFunction;
    if (each.predates_trace()) return rule_of_older(traits);
    if (!traits_.has_stacks()) return CategoryRule::kNoRule;
    if (is_replica(each)) return CategoryRule::kReplica;
    switch (traits.alloc_site) {
      case CallSite::kUnknown: return rule_without_stack(each);
      case CallSite::kAutograd: return rule_in_backward(id);
      case CallSite::kBackwardCall:
        return is_kept(each) ? rule_of_kept(each) : CategoryRule::kInBackwardCall;
      case CallSite::kOptimizer: return rule_in_step(each);
      case CallSite::kZeroGrad:
      case CallSite::kOther: break;
    }
    return rule_in_program(each, traits);
  }

  static CategoryRule rule_of_older(const StackTraits& traits) {
    if (traits.in_optimizer_setup || traits.alloc_site == CallSite::kOptimizer) {
      return CategoryRule::kKeptByOptimizerStep;
    }
    if (traits.in_module_setup) return CategoryRule::kModuleSetup;
    if (traits.in_replication) return CategoryRule::kReplica;
    return CategoryRule::kNoRule;
  }

  // Classifies by phases alone: no frame was recorded.
  CategoryRule rule_without_stack(const Allocation& each) const {
    if (!is_freed_in_same_phase(each)) return CategoryRule::kNoRule;
    switch (phase_at(each.alloc_entry)) {
      case Phase::kForward:
      case Phase::kEvaluation: return CategoryRule::kFreedInForward;
      case Phase::kBackward: return CategoryRule::kFreedInBackward;
      case Phase::kOptimizer: return CategoryRule::kNotKeptByOptimizerStep;
      case Phase::kOther: break;
    }
    return CategoryRule::kNoRule;
  }

  CategoryRule rule_in_backward(uint32_t id) {
    const Allocation& each = all_[id];
    if (traits_of(each).in_communication && is_kept(each)) return CategoryRule::kCommunication;
    if (!is_freed_in_same_phase(each)) {
      results_[phase_index(each.alloc_entry)].push_back(id);  // see match_gradients()
      return CategoryRule::kNoRule;
    }
    const StackTraits& freed = traits_.of(trace_[each.free_entry].stack);
    const bool is_recomputed = traits_of(each).in_recomputation && !freed.in_recomputation;
    return is_recomputed ? CategoryRule::kRecomputed : CategoryRule::kFreedInBackward;
  }

  CategoryRule rule_in_step(const Allocation& each) const {
    if (is_freed_in_same_phase(each)) return CategoryRule::kNotKeptByOptimizerStep;
    const StackUse& use = uses_.at(each.stack);
    const bool is_state = is_kept(each) || (each.free_entry == kNever && !use.is_freed_later);
    return is_state ? CategoryRule::kKeptByOptimizerStep : CategoryRule::kNotKeptByOptimizerStep;
  }

  CategoryRule rule_in_program(const Allocation& each, const StackTraits& traits) {
    if (is_kept(each) || each.free_entry == kNever) {
      if (traits.in_optimizer_setup) return CategoryRule::kOptimizerSetup;
      if (traits.in_communication) return CategoryRule::kCommunication;
      if (traits.in_module_setup) return CategoryRule::kModuleSetup;
    }
    if (is_kept(each)) {
      return is_from_setup(each) ? CategoryRule::kKeptSinceSetup : rule_of_kept(each);
    }
    switch (phase_at(each.alloc_entry)) {
      case Phase::kOptimizer: return rule_in_optimizer_phase(each);
      case Phase::kBackward: return CategoryRule::kInBackwardCall;
      case Phase::kForward:
      case Phase::kEvaluation: return rule_in_forward(each);
      case Phase::kOther: break;
    }
    if (!has_phases_) return CategoryRule::kNoRule;
    if (is_freed_in_same_phase(each)) return CategoryRule::kFreedInSetup;
    return is_from_setup(each) ? CategoryRule::kBeforeFirstModuleCall
                               : CategoryRule::kKeptByProgram;
  }

  CategoryRule rule_in_optimizer_phase(const Allocation& each) const {
    return uses_.at(each.stack).is_kept_repeatedly ? CategoryRule::kKeptByProgram
                                                   : CategoryRule::kNotKeptByOptimizerStep;
  }

  CategoryRule rule_in_forward(const Allocation& each) const {
    const uint32_t begin = each.alloc_entry;
    const bool lives_to_end = each.free_entry == kNever || each.free_entry >= teardown_;
    // Too few iterations follow for is_kept() to hold, but earlier allocations with this stack
    // were kept.
    if (lives_to_end && uses_.at(each.stack).is_kept_repeatedly) {
      return CategoryRule::kKeptByProgram;
    }
    const bool precedes_call = !follows_call_[begin] && next_call_[begin] != kNever;
    if (precedes_call && each.free_entry > next_call_[begin]) {
      return CategoryRule::kBeforeFirstModuleCall;
    }
    if (is_live_at_failure(each)) return CategoryRule::kLiveAtFailure;
    if (is_freed_in_same_phase(each)) return CategoryRule::kFreedInForward;
    if (each.free_entry == kNever && iterations_.all.size() < 2 && is_workspace_size(each.bytes)) {
      return CategoryRule::kKeptWithWorkspaceSize;
    }
    if (is_after_step(begin)) return CategoryRule::kKeptByProgram;
    if (each.free_entry != kNever && phase_at(each.free_entry) == Phase::kBackward) {
      return CategoryRule::kFreedByBackward;
    }
    return CategoryRule::kHeldDuringBackward;
  }

  // Whether an allocation failed in the same phase while this one was live. The exception then
  // frees the activations that the backward pass would have freed.
  bool is_live_at_failure(const Allocation& each) const {
    const auto failure = std::lower_bound(failures_.begin(), failures_.end(), each.alloc_entry);
    return failure != failures_.end() && *failure < each.free_entry &&
           phase_index(*failure) == phase_index(each.alloc_entry);
  }

  // Whether an entry of a forward phase precedes the top of the loop, and therefore belongs to the
  // previous iteration.
  bool is_after_step(uint32_t entry) const {
    const EntryRange phase = iterations_.phases[phase_index(entry)].entries;
    const uint32_t iteration = iterations_.at(phase.end - 1);
    return iteration != Iterations::kNoIteration && iteration > 0 &&
           entry < iterations_.all[iteration].entries.first && !follows_call_[entry];
  }

  CategoryRule rule_of_kept(const Allocation& each) const {
    const StackUse& use = uses_.at(each.stack);
    if (use.is_kept_repeatedly) return CategoryRule::kKeptByProgram;
    // A workspace is created by the first call of a function whose other results are freed.
    const bool is_by_library = traits_of(each).innermost_is_library || use.is_freed_later;
    return is_by_library ? CategoryRule::kKeptByLibrary : CategoryRule::kKeptByProgram;
  }

  // Matches gradients, which are results of a backward pass, with parameters of the same size.

  void match_gradients() {
    SizeCounts parameters;          // includes candidates of match_setup()
    bool is_trace_complete = true;  // no allocation, and thus no parameter, predates the trace
    for (uint32_t i = 0; i < all_.size(); ++i) {
      if (is_possible_parameter(i)) ++parameters[all_[i].bytes];
    }
    for (const Allocation& each : all_) is_trace_complete &= !each.predates_trace();
    if (!is_trace_complete) {
      for (const auto& [bytes, count] : sizes_of_optimizer_state()) {
        parameters[bytes] = std::max(parameters[bytes], count);
      }
    }

    std::vector<uint32_t> gradients;        // of all passes so far
    SizeCounts live;                        // those of them that the current pass does not free
    std::multimap<uint32_t, size_t> frees;  // the sizes of the live gradients, by free entry
    for (auto& [phase, results] : results_) {
      const uint32_t end = iterations_.phases[phase].entries.end;
      for (; !frees.empty() && frees.begin()->first < end; frees.erase(frees.begin())) {
        --live[frees.begin()->second];
      }
      // A workspace may be as large as a parameter, but is usually not freed, so freed results are
      // matched first.
      std::stable_partition(results.begin(), results.end(),
                            [this](uint32_t id) { return all_[id].free_entry != kNever; });
      for (const uint32_t id : results) {
        const size_t bytes = all_[id].bytes;
        const bool is_match = live[bytes] < parameters[bytes];
        rules_[id] = is_match ? CategoryRule::kResultWithParameterSize
                              : rule_of_result(all_[id], is_trace_complete);
        if (category_of(rules_[id]) != Category::kGradients) continue;
        ++live[bytes];
        frees.emplace(all_[id].free_entry, bytes);
        gradients.push_back(id);
      }
    }
    count_simultaneous(gradients);
  }

  // Whether the allocation is a parameter with a gradient of its own, which a replica's gradient is
  // added to.
  bool is_own_parameter(uint32_t id) const {
    return category_of(rules_[id]) == Category::kParameters && rules_[id] != CategoryRule::kReplica;
  }
  bool is_possible_parameter(uint32_t id) const {
    return is_own_parameter(id) || rules_[id] == CategoryRule::kKeptSinceSetup;
  }

  // Returns the rule for a result of the backward pass that matches no known parameter.
  CategoryRule rule_of_result(const Allocation& each, bool is_trace_complete) const {
    const bool is_freed = each.free_entry != kNever;
    if (is_freed && traits_.of(trace_[each.free_entry].stack).free_site == CallSite::kZeroGrad) {
      return CategoryRule::kFreedByZeroGrad;
    }
    if (is_kept(each) || !is_freed) {
      return uses_.at(each.stack).is_kept_repeatedly && !is_trace_complete &&
                     each.free_entry == kNever && crossed_iterations(each) < 2
                 ? CategoryRule::kResultWithParameterSize
                 : CategoryRule::kKeptByLibrary;
    }
    if (phase_at(each.free_entry) == Phase::kOptimizer && !is_trace_complete) {
      return CategoryRule::kFreedByZeroGrad;
    }
    return CategoryRule::kFreedAfterBackward;
  }

  // Sets gradient_sizes_.
  void count_simultaneous(const std::vector<uint32_t>& gradients) {
    SizeCounts live;
    std::multimap<uint32_t, size_t> ends;
    for (const uint32_t id : gradients) {
      const Allocation& each = all_[id];
      while (!ends.empty() && ends.begin()->first <= each.alloc_entry) {
        --live[ends.begin()->second];
        ends.erase(ends.begin());
      }
      size_t& count = gradient_sizes_[each.bytes];
      count = std::max(count, ++live[each.bytes]);
      if (each.free_entry != kNever) ends.emplace(each.free_entry, each.bytes);
    }
  }

  // Classifies tensors kept since before the first forward pass as parameters if a gradient of
  // their size has no parameter yet.
  void match_setup() {
    SizeCounts unmatched = gradient_sizes_;
    for (uint32_t i = 0; i < all_.size(); ++i) {
      if (is_own_parameter(i)) take(unmatched, all_[i].bytes);
    }
    for (uint32_t i = 0; i < all_.size(); ++i) {
      if (rules_[i] != CategoryRule::kKeptSinceSetup) continue;
      if (take(unmatched, all_[i].bytes)) rules_[i] = CategoryRule::kKeptWithGradientSize;
    }
  }

  static bool take(SizeCounts& sizes, size_t bytes) {
    const auto place = sizes.find(bytes);
    if (place == sizes.end() || place->second == 0) return false;
    --place->second;
    return true;
  }

  // Classifies allocations that predate the trace, are never freed, and match no other rule. If
  // they include complete copies of the gradients (one allocation per gradient, of its size), the
  // first copy is the parameters and further copies are optimizer state. Without gradients, the
  // optimizer state takes their place, and further copies are gradients.
  void match_older_than_trace() {
    const bool has_gradients = !gradient_sizes_.empty();
    SizeCounts parameters = has_gradients ? gradient_sizes_ : sizes_of_optimizer_state();
    SizeCounts copies = complete_copies(parameters);

    const CategoryRule rule_of_further_copies =
        has_gradients ? CategoryRule::kOlderStateCopy : CategoryRule::kOlderGradientCopy;
    for (uint32_t i = 0; i < all_.size(); ++i) {
      if (is_own_parameter(i)) take(parameters, all_[i].bytes);
    }
    for (uint32_t i = 0; i < all_.size(); ++i) {
      if (!is_unexplained_and_older(i)) continue;
      const size_t bytes = all_[i].bytes;
      if (take(copies, bytes)) {
        rules_[i] = take(parameters, bytes) ? CategoryRule::kOlderWithParameterSize
                                            : rule_of_further_copies;
      } else if (is_workspace_size(bytes)) {
        rules_[i] = CategoryRule::kKeptWithWorkspaceSize;
      }
    }
    match_older_and_freed(parameters);
  }

  // Allocations that are older than the trace and freed in it. An optimizer that does not work in
  // place replaces its state in each step. `unmatched` are the sizes of gradients for which no
  // parameter was found.
  void match_older_and_freed(const SizeCounts& unmatched) {
    for (uint32_t i = 0; i < all_.size(); ++i) {
      const Allocation& each = all_[i];
      const bool is_unexplained = rules_[i] == CategoryRule::kNoRule && each.predates_trace();
      if (!is_unexplained || each.free_entry == kNever) continue;
      const CallSite freed = traits_.of(trace_[each.free_entry].stack).free_site;
      const auto left = unmatched.find(each.bytes);
      const bool is_copy =
          gradient_sizes_.contains(each.bytes) && (left == unmatched.end() || left->second == 0);
      if (freed == CallSite::kZeroGrad) {
        rules_[i] = CategoryRule::kFreedByZeroGrad;
      } else if (freed == CallSite::kOptimizer && is_copy) {
        rules_[i] = CategoryRule::kOlderReplacedState;
      }
    }
  }

  // Returns how many unclassified older allocations of each size are part of a complete copy of
  // `sizes`. A single allocation may have one of the sizes by chance.
  SizeCounts complete_copies(const SizeCounts& sizes) const {
    SizeCounts older;
    for (uint32_t i = 0; i < all_.size(); ++i) {
      if (is_unexplained_and_older(i)) ++older[all_[i].bytes];
    }
    size_t copies = SIZE_MAX;
    for (const auto& [bytes, count] : sizes) {
      copies = std::min(copies, older[bytes] / count);
    }
    SizeCounts found;
    if (copies == SIZE_MAX) return found;
    for (const auto& [bytes, count] : sizes) found[bytes] = count * copies;
    return found;
  }

  // Returns the sizes of the optimizer state with the stack that allocated most of it: one
  // allocation per parameter. Returns nothing if that state is only step counters.
  SizeCounts sizes_of_optimizer_state() const {
    std::map<StackId, std::pair<size_t, SizeCounts>> by_stack;
    for (uint32_t i = 0; i < all_.size(); ++i) {
      if (category_of(rules_[i]) != Category::kOptimizerState) continue;
      auto& [bytes, sizes] = by_stack[all_[i].stack];
      bytes += all_[i].bytes;
      ++sizes[all_[i].bytes];
    }
    const auto largest = std::max_element(
        by_stack.begin(), by_stack.end(),
        [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    constexpr size_t kCounterBytes = 8;
    if (largest == by_stack.end() || largest->second.second.rbegin()->first <= kCounterBytes) {
      return {};
    }
    return largest->second.second;
  }

  // PyTorch's default workspace sizes: cuBLAS before Hopper, cuBLAS since Hopper, cuBLASLt.
  static bool is_workspace_size(size_t bytes) {
    return bytes == 8'519'680 || bytes == 33'554'432 || bytes == 1'048'576;
  }

  bool is_unexplained_and_older(uint32_t id) const {
    return rules_[id] == CategoryRule::kNoRule && all_[id].predates_trace() &&
           all_[id].free_entry == kNever;
  }

  const std::vector<TraceEntry>& trace_;
  const std::vector<Allocation>& all_;
  const StackTraitsTable& traits_;
  const Iterations& iterations_;
  std::vector<CategoryRule> rules_;

  bool has_phases_ = false;  // other than kOther
  uint32_t last_entry_ = 0;
  uint32_t first_forward_ = 0;       // the first entry of a forward pass or of an iteration
  uint32_t teardown_ = 0;            // the end of the last phase of training or evaluation
  std::vector<uint32_t> next_call_;  // for each entry: the first module call of its pass
  std::vector<bool> follows_call_;   // for each entry: whether its pass has called a module
  std::vector<uint32_t> failures_;   // oom entries, ascending
  // The alloc entries that end a series of allocations by replication, ascending.
  std::vector<uint32_t> replication_ends_;
  std::map<StackId, StackUse> uses_;
  // For each backward phase, by index: its allocations that outlive it.
  std::map<uint32_t, std::vector<uint32_t>> results_;
  SizeCounts gradient_sizes_;  // for each size: the most gradients that were live simultaneously
};

CategoryBytes peak_bytes_of(const Allocations& allocations, const Categories& categories) {
  CategoryBytes live{};
  for (uint32_t i = 0; i < allocations.all.size(); ++i) {
    if (!allocations.all[i].predates_trace()) continue;
    live[static_cast<size_t>(categories.of(i))] += allocations.all[i].bytes;
  }
  CategoryBytes peaks = live;
  for_each_change(allocations, [&](uint32_t entry, const Allocation& each) {
    const auto id = static_cast<uint32_t>(&each - allocations.all.data());
    const auto category = static_cast<size_t>(categories.of(id));
    if (each.alloc_entry == entry) {
      live[category] += each.bytes;
      peaks[category] = std::max(peaks[category], live[category]);
    } else if (each.completed_entry == entry) {
      live[category] -= each.bytes;
    }
  });
  return peaks;
}

}  // namespace

Categories find_categories(const Snapshot& snapshot, DeviceIndex device,
                           const Allocations& allocations, const StackTraitsTable& traits,
                           const Iterations& iterations) {
  Categories found;
  found.rules = CategoryFinder(trace_of(snapshot, device), allocations, traits, iterations).find();
  found.peak_bytes = peak_bytes_of(allocations, found);
  return found;
}

CategoryBytes bytes_by_category(const Allocations& allocations, const Categories& categories,
                                std::optional<uint32_t> entry) {
  CategoryBytes bytes{};
  for (const uint32_t id : present_at(allocations, entry)) {
    bytes[static_cast<size_t>(categories.of(id))] += allocations.all[id].bytes;
  }
  return bytes;
}

}  // namespace ashlar
