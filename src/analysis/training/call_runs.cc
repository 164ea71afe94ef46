// SPDX-License-Identifier: Apache-2.0
//
// One pass over the trace joins consecutive entries of the same kind. Corrections for watchdog
// threads and closures follow.
#include "analysis/training/call_runs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace ashlar {
namespace {

const std::string* field_of(const Annotation& annotation, std::string_view name) {
  for (const auto& [key, value] : annotation.fields) {
    if (key == name) return &value;
  }
  return nullptr;
}

// Answers whether an entry lies in an annotated optimizer step. Queries ascend.
class StepCursor {
 public:
  explicit StepCursor(const std::vector<AnnotatedRange>& ranges) {
    for (const AnnotatedRange& range : ranges) {
      if (is_optimizer_step(range)) ranges_.push_back(range.entries);
    }
  }

  // REQUIRES: `entry` is not less than in the previous call.
  bool advance_to(uint32_t entry) {
    while (next_ < ranges_.size() && ranges_[next_].first <= entry) {
      end_ = std::max(end_, ranges_[next_++].end);
    }
    return entry < end_;
  }

 private:
  std::vector<EntryRange> ranges_;  // sorted by first entry
  size_t next_ = 0;
  uint32_t end_ = 0;
};

class RunBuilder {
 public:
  void add(uint32_t entry, CallSite site, const TraceEntry& traced) {
    const bool is_alloc = traced.action == TraceAction::kAlloc;
    const RunKind kind = kind_of(site);
    // backward() first allocates its seed, then starts the autograd thread.
    const bool is_new_call = site == CallSite::kBackwardCall && is_alloc && has_autograd_entry_;
    if (runs_.empty() || runs_.back().kind != kind || is_new_call) begin(entry, kind);
    CallRun& run = runs_.back();
    run.entries.end = entry + 1;
    if (is_alloc) has_alloc_.back() = true;
    if (site == CallSite::kAutograd) has_autograd_entry_ = true;
    if (site == CallSite::kBackwardCall && is_alloc && run.backward_call == StackId()) {
      run.backward_call = traced.stack;
    }
  }

  std::vector<CallRun> finish(uint32_t entry_count) {
    remove_runs_of_frees();
    reclassify_closures();
    join_equal_runs();
    for (size_t i = 0; i + 1 < runs_.size(); ++i) {
      runs_[i].entries.end = runs_[i + 1].entries.first;
    }
    if (runs_.empty()) runs_.push_back({});
    runs_.front().entries.first = 0;
    runs_.back().entries.end = entry_count;
    return std::move(runs_);
  }

 private:
  static RunKind kind_of(CallSite site) {
    switch (site) {
      case CallSite::kBackwardCall:
      case CallSite::kAutograd: return RunKind::kBackward;
      case CallSite::kOptimizer: return RunKind::kOptimizer;
      case CallSite::kZeroGrad: return RunKind::kZeroGrad;
      case CallSite::kUnknown:
      case CallSite::kOther: break;
    }
    return RunKind::kOther;
  }

  void begin(uint32_t entry, RunKind kind) {
    runs_.push_back({.kind = kind, .entries = {entry, entry + 1}});
    has_alloc_.push_back(false);
    has_autograd_entry_ = false;
  }

  // Removes backward runs without allocations. A thread without Python code that only frees is not
  // an autograd thread but, for example, the watchdog of distributed training.
  void remove_runs_of_frees() {
    std::vector<CallRun> kept;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].kind == RunKind::kBackward && !has_alloc_[i]) continue;
      if (!kept.empty() && kept.back().kind == runs_[i].kind &&
          runs_[i].kind != RunKind::kBackward) {
        continue;
      }
      kept.push_back(runs_[i]);
    }
    runs_ = std::move(kept);
  }

  // Reclassifies optimizer runs directly before a backward pass. They are the forward pass of a
  // closure that step() called.
  void reclassify_closures() {
    bool precedes_backward = false;
    for (size_t i = runs_.size(); i-- > 0;) {
      if (runs_[i].kind == RunKind::kOptimizer && precedes_backward) {
        runs_[i].kind = RunKind::kOther;
      }
      if (runs_[i].kind != RunKind::kZeroGrad) {
        precedes_backward = runs_[i].kind == RunKind::kBackward;
      }
    }
  }

  void join_equal_runs() {
    std::vector<CallRun> kept;
    for (const CallRun& run : runs_) {
      const bool is_same = !kept.empty() && kept.back().kind == run.kind;
      if (is_same && run.kind != RunKind::kBackward) continue;
      kept.push_back(run);
    }
    runs_ = std::move(kept);
  }

  std::vector<CallRun> runs_;
  std::vector<bool> has_alloc_;      // for each run of runs_, until remove_runs_of_frees()
  bool has_autograd_entry_ = false;  // in the last run
};

}  // namespace

std::vector<AnnotatedRange> annotated_ranges(const Snapshot& snapshot, DeviceIndex device) {
  if (device.value() >= snapshot.device_traces.size()) return {};
  const std::vector<TraceEntry>& trace = snapshot.device_traces[device.value()];
  const bool has_times = std::all_of(trace.begin(), trace.end(),
                                     [](const TraceEntry& entry) { return entry.has_time; });
  if (!has_times) return {};

  std::vector<const Annotation*> annotations;
  for (const Annotation& each : snapshot.annotations) {
    if (each.device == device) annotations.push_back(&each);
  }
  std::stable_sort(
      annotations.begin(), annotations.end(),
      [](const Annotation* a, const Annotation* b) { return a->time_us < b->time_us; });

  std::vector<AnnotatedRange> ranges;
  std::map<std::string_view, std::vector<size_t>> open;  // ranges without an end, by name
  uint32_t entry = 0;
  for (const Annotation* each : annotations) {
    while (entry < trace.size() && trace[entry].time_us < each->time_us) ++entry;
    const std::string* name = field_of(*each, "name");
    const std::string* stage = field_of(*each, "stage");
    if (name == nullptr || stage == nullptr) continue;
    std::vector<size_t>& begun = open[*name];
    if (*stage == "START") {
      begun.push_back(ranges.size());
      ranges.push_back({.name = *name, .entries = {entry, static_cast<uint32_t>(trace.size())}});
    } else if (*stage == "END" && !begun.empty()) {
      ranges[begun.back()].entries.end = entry;
      begun.pop_back();
    }
  }
  return ranges;
}

bool is_optimizer_step(const AnnotatedRange& range) {
  return range.name.starts_with("Optimizer.step#");
}

std::vector<CallRun> find_call_runs(const std::vector<TraceEntry>& trace,
                                    const StackTraitsTable& traits,
                                    const std::vector<AnnotatedRange>& ranges) {
  RunBuilder builder;
  StepCursor steps(ranges);
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const TraceEntry& entry = trace[i];
    const bool is_in_step = steps.advance_to(i);
    CallSite site = CallSite::kUnknown;
    if (entry.action == TraceAction::kAlloc) site = traits.of(entry.stack).alloc_site;
    if (entry.action == TraceAction::kFreeRequested) site = traits.of(entry.stack).free_site;
    const bool is_change =
        entry.action == TraceAction::kAlloc || entry.action == TraceAction::kFreeRequested;
    if (is_change && !traits.has_stacks()) site = CallSite::kOther;
    if (site == CallSite::kOther && is_in_step) site = CallSite::kOptimizer;
    if (site != CallSite::kUnknown) builder.add(i, site, entry);
  }
  return builder.finish(static_cast<uint32_t>(trace.size()));
}

}  // namespace ashlar
